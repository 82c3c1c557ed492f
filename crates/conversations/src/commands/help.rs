//! `/help [COMMAND]`

use crate::commands::slash_command::HelpArgs;
use crate::commands::syntax::CommandSyntax;

pub fn help_text(HelpArgs { command }: &HelpArgs) -> String {
    let (syntax, _) = CommandSyntax::find_command(command);
    if syntax.is_root() {
        format!("Anything that is not a command goes to the agent.\n\n{}", syntax.list_subcommands())
    } else if syntax.has_subcommands() {
        syntax.list_subcommands()
    } else {
        syntax.describe()
    }
}
