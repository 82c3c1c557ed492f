//! Messages, and the commands or refusals that they are.

use grove_conversations::commands::help::help_text;
use grove_conversations::commands::parse::parse_message;
use grove_conversations::commands::slash_command::{
    AgentArgs, CleanupArgs, CleanupKind, CodebaseArgs, CreateArgs, DiffArgs, FinishArgs, HelpArgs, IgnoredArgs,
    LinkArgs, PrArgs, PushArgs, RegisterArgs, RemoveArgs, RestOfMessage, RunArgs, SlashCommand, UndoArgs, WorktreeArgs,
    WorktreeCommand,
};
use grove_conversations::commands::syntax::CommandSyntax;
use grove_conversations::replies;
use grove_git::finish::FinishMethod;
use grove_model::BranchName;

fn branch(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

fn rest(text: &str) -> Option<RestOfMessage> {
    Some(RestOfMessage(text.to_owned()))
}

fn named(name: Option<&str>) -> WorktreeArgs {
    WorktreeArgs { worktree: name.map(str::to_owned) }
}

fn create(name: &str, from: Option<&str>) -> SlashCommand {
    let from = from.map(str::to_owned);
    SlashCommand::Worktree(WorktreeCommand::Create(CreateArgs { name: branch(name), from }))
}

fn remove(name: Option<&str>, force: bool) -> SlashCommand {
    SlashCommand::Worktree(WorktreeCommand::Remove(RemoveArgs { named: named(name), force }))
}

fn cleanup(kind: CleanupKind, dry_run: bool) -> SlashCommand {
    SlashCommand::Worktree(WorktreeCommand::Cleanup(CleanupArgs { kind, dry_run }))
}

fn finish(name: Option<&str>, method: Option<FinishMethod>, of: Option<&str>) -> SlashCommand {
    let branch = of.map(branch);
    SlashCommand::Worktree(WorktreeCommand::Finish(FinishArgs { named: named(name), method, branch }))
}

fn run(name: &str, arguments: Option<RestOfMessage>) -> SlashCommand {
    SlashCommand::Run(RunArgs { custom_command: name.to_owned(), arguments })
}

fn help(command: &[&str]) -> SlashCommand {
    SlashCommand::Help(HelpArgs { command: command.iter().map(|word| (*word).to_owned()).collect() })
}

#[test]
fn a_message_is_the_command_that_it_says() {
    let (merged, stale) = (CleanupKind::Merged, CleanupKind::Stale);
    let of_worktree = SlashCommand::Worktree;
    let cases = [
        ("/status", SlashCommand::Status),
        ("  /status \r\n", SlashCommand::Status),
        ("/worktree list", of_worktree(WorktreeCommand::List)),
        ("/status\n\nThanks, it doesn't hurry!", SlashCommand::Status),
        ("/worktree list\r\nThanks!", of_worktree(WorktreeCommand::List)),
        ("/worktree\nlist", of_worktree(WorktreeCommand::List)),
        ("/worktree create fix", create("fix", None)),
        ("/worktree create größe/日本", create("größe/日本", None)),
        ("/worktree create 'fix' --from v1.2", create("fix", Some("v1.2"))),
        ("/worktree create --from=v1.2 fix", create("fix", Some("v1.2"))),
        ("/worktree create\u{a0}fix\n--from \"a b\"", create("fix", Some("a b"))),
        ("/worktree create fix --base v1.2", create("fix", Some("v1.2"))),
        ("/worktree remove", remove(None, false)),
        ("/worktree remove fix --force", remove(Some("fix"), true)),
        ("/worktree remove -f fix", remove(Some("fix"), true)),
        // Not a comment: that would remove another worktree than the named one.
        ("/worktree remove #42", remove(Some("#42"), false)),
        ("/worktree remove -- -x", remove(Some("-x"), false)),
        ("/worktree undo", of_worktree(WorktreeCommand::Undo(UndoArgs { removed_worktree: None }))),
        ("/worktree link pr-7", of_worktree(WorktreeCommand::Link(LinkArgs { worktree: branch("pr-7") }))),
        (
            "/worktree diff",
            of_worktree(WorktreeCommand::Diff(DiffArgs { named: named(None), stat: false, name_only: false })),
        ),
        (
            "/worktree diff x --stat",
            of_worktree(WorktreeCommand::Diff(DiffArgs { named: named(Some("x")), stat: true, name_only: false })),
        ),
        ("/worktree why fix", of_worktree(WorktreeCommand::Why(named(Some("fix"))))),
        ("/worktree finish", finish(None, None, None)),
        ("/worktree finish a --method squash --branch b", finish(Some("a"), Some(FinishMethod::Squash), Some("b"))),
        ("/worktree cleanup merged", cleanup(merged, false)),
        ("/worktree cleanup --dry-run stale", cleanup(stale, true)),
        ("/worktree cleanup stale -n", cleanup(stale, true)),
        ("/codebase my-app", SlashCommand::Codebase(CodebaseArgs { codebase: "my-app".to_owned() })),
        ("/codebase help", SlashCommand::Codebase(CodebaseArgs { codebase: "help".to_owned() })),
        ("/register '/srv/my app'", SlashCommand::Register(RegisterArgs { path: "/srv/my app".to_owned() })),
        ("/agent", SlashCommand::Agent(AgentArgs { name: None })),
        ("/push --branch topic", SlashCommand::Push(PushArgs { branch: Some(branch("topic")) })),
        ("/run review", run("review", None)),
        ("/run review ", run("review", None)),
        (" /run  'my review'\n a  'b c'\nd", run("my review", rest("\n a  'b c'\nd"))),
        ("/run fix it doesn't work", run("fix", rest(" it doesn't work"))),
        ("/run fix --help --x", run("fix", rest(" --help --x"))),
        ("/run -x", run("-x", None)),
        ("/pr", SlashCommand::Pr(PrArgs { title: None })),
        ("/pr Don't crash, \"really\"", SlashCommand::Pr(PrArgs { title: rest(" Don't crash, \"really\"") })),
        ("/pr --draft x\nmore", SlashCommand::Pr(PrArgs { title: rest(" --draft x\nmore") })),
        ("/retry", SlashCommand::Retry(IgnoredArgs { ignored: None })),
        ("/retry it doesn't work --now", SlashCommand::Retry(IgnoredArgs { ignored: rest(" it doesn't work --now") })),
        ("/stop now", SlashCommand::Stop(IgnoredArgs { ignored: rest(" now") })),
        ("/help", help(&[])),
        ("/help worktree create", help(&["worktree", "create"])),
        ("/help /run", help(&["run"])),
        ("/worktree", help(&["worktree"])),
        ("/worktree help", help(&["worktree"])),
        ("/worktree help create", help(&["worktree", "create"])),
        ("/worktree create --help", help(&["worktree", "create"])),
        ("/worktree create x -h", help(&["worktree", "create"])),
        ("/pr --help", help(&["pr"])),
    ];
    for (text, command) in cases {
        assert_eq!(parse_message(text).unwrap(), Some(command), "{text:?}");
    }
}

#[test]
fn words_for_the_agent_are_no_command() {
    for text in
        ["hello", "", "/", "/1", "/usr/bin is full", "/ help", "// comment", "see /help", "/über", "/retry, please"]
    {
        assert_eq!(parse_message(text).unwrap(), None, "{text:?}");
    }
}

#[test]
fn a_refusal_says_what_is_wrong_and_how_to_write_it() {
    let create = "Write `/worktree create NAME [--from REF]`, with a name such as `fix-login` or `feature/login`.";
    let link = "Write `/worktree link issue-42`, `/worktree link pr-7` or `/worktree link feature/auth`.";
    let cleanup = "Write `/worktree cleanup merged` or `/worktree cleanup stale`.";
    let remove = "Write `/worktree remove [NAME] [--force]`.";
    let finish = "Write `/worktree finish [NAME] [--method merge|squash] [--branch NAME]`.";
    let together = |hint: &str| format!("Quote words that belong together. {hint}");
    let quote = "Close it, or leave it away. A `\\` at the end needs another one before it.";
    let all = "`/help` shows all commands.";
    let cases = [
        ("/hlep", "There is no command `/hlep`.", &*format!("Did you mean `/help`? {all}")),
        ("/xyzzy", "There is no command `/xyzzy`.", all),
        ("/fix it doesn't work", "There is no command `/fix`.", all),
        ("/-x", "There is no command `/-x`.", all),
        ("/--", "There is no command `/--`.", all),
        (
            "/worktree crate x",
            "There is no command `/worktree crate`.",
            &format!("Did you mean `/worktree create`? {all}"),
        ),
        ("/worktree xyzzy", "There is no command `/worktree xyzzy`.", all),
        (
            "/help worktree crate",
            "There is no command `/worktree crate`.",
            &format!("Did you mean `/worktree create`? {all}"),
        ),
        // The nearest name is offered.
        ("/trsut", "There is no command `/trsut`.", &format!("Did you mean `/trust`? {all}")),
        ("/worktree iinit", "There is no command `/worktree iinit`.", &format!("Did you mean `/worktree init`? {all}")),
        ("/worktree create", "NAME is missing.", create),
        ("/worktree create --from x", "NAME is missing.", create),
        (
            "/worktree create x --frm y",
            "`/worktree create` does not know `--frm`.",
            &format!("Did you mean `--from`? {create}"),
        ),
        ("/worktree create x --from", "REF is missing behind `--from`.", create),
        ("/worktree create -evil", "`/worktree create` does not know `-evil`.", create),
        ("/worktree create -- -evil", "`-evil` cannot be a branch: a name must not begin with `-`.", create),
        ("/worktree create 'a b'", "`a b` cannot be a branch: it contains a space.", create),
        ("/worktree create x\nplease", "`/worktree create` does not know what to do with `please`.", &together(create)),
        ("/worktree create 'x", "A quote is not closed.", quote),
        ("/worktree create x\\", "A quote is not closed.", quote),
        ("/worktree link", "KIND-ID|BRANCH is missing.", link),
        ("/worktree link a b", "`/worktree link` does not know what to do with `b`.", &together(link)),
        ("/worktree link ..", "`..` cannot be a branch: it contains `..`.", link),
        ("/worktree link -x", "`/worktree link` does not know `-x`.", link),
        ("/worktree cleanup", "`merged` or `stale` is missing.", cleanup),
        ("/worktree cleanup all", "`all` is not `merged` or `stale`.", cleanup),
        ("/worktree cleanup ''", "`` is not `merged` or `stale`.", cleanup),
        ("/worktree remove a --force --force", "`--force` is given more than once.", remove),
        ("/worktree remove a --force=yes", "`--force` takes no value.", remove),
        ("/worktree remove -fx", "`/worktree remove` does not know `-x`.", remove),
        ("/worktree finish --method rebase", "`rebase` is no way to merge; the ways are merge and squash.", finish),
        ("/worktree finish --branch -x", "`/worktree finish` does not know `-x`.", finish),
        ("/worktree finish --branch 'a b'", "`a b` cannot be a branch: it contains a space.", finish),
        ("/worktree --force", "`/worktree` does not know `--force`.", "`/worktree help` lists the commands."),
        ("/worktree list all", "`/worktree list` does not know what to do with `all`.", "Write `/worktree list`."),
        ("/status please", "`/status` does not know what to do with `please`.", "Write `/status`."),
        ("/status doesn't work", "A quote is not closed.", quote),
        ("/codebase", "NAME is missing.", "Write `/codebase NAME`."),
        ("/codebase a b", "`/codebase` does not know what to do with `b`.", &together("Write `/codebase NAME`.")),
        ("/clone", "URL is missing.", "Write `/clone URL`."),
        ("/push now", "`/push` does not know what to do with `now`.", "Write `/push [--branch NAME]`."),
        ("/run", "NAME is missing.", "Write `/run NAME [ARGS]`; `/commands` lists the names."),
        ("/run 'x", "A quote is not closed.", quote),
    ];
    for (text, message, hint) in cases {
        let problem = parse_message(text).unwrap_err();
        assert_eq!(replies::problem_reply(&problem), format!("{message}\n{hint}"), "{text:?}");
        let code = match message {
            _ if message.starts_with("There is no command") => "unknown_command",
            _ if message.ends_with("comes with a later version.") => "not_yet",
            _ => "usage",
        };
        assert_eq!(problem.code, code, "{text:?}");
    }
}

/// Whatever is typed, the parser neither panics nor speaks for itself.
#[test]
fn no_text_of_the_parser_is_shown() {
    let all = CommandSyntax::all();
    let mut commands = vec![String::new(), "/xyzzy".to_owned()];
    for name in all.subcommand_names() {
        let (command, _) = CommandSyntax::find_command(&[name]);
        commands.push(command.typed().to_owned());
        commands.extend(command.subcommand_names().map(|name| command.type_subcommand(name)));
    }
    assert!(commands.len() > 30, "{commands:?}");
    let arguments = [
        "",
        "--",
        "-",
        "-- -x",
        "--x",
        "-x",
        "--x=y",
        "-xyz",
        "''",
        "a b c",
        "--help=1",
        "--force=",
        "--from",
        "--from=",
        "--method",
        "-n=1",
        "\0",
        "🦀",
        "-🦀",
        "--ünï=x",
        "-1",
        "help",
        "help help",
        "--help --help",
        "'",
        "\\",
        "#",
        "{usage}",
    ];
    for (command, argument) in commands.iter().flat_map(|command| arguments.map(|argument| (command, argument))) {
        let text = format!("{command} {argument}");
        let shown = match parse_message(&text) {
            Ok(Some(SlashCommand::Help(args))) => help_text(&args),
            Ok(_) => continue,
            Err(problem) => replies::problem_reply(&problem),
        };
        for foreign in ["Usage:", "tip:", "error:", "For more information", "\u{1b}", "<NAME>"] {
            assert!(!shown.contains(foreign), "{text:?}: {shown}");
        }
        assert!(shown.ends_with(['.', '?']) || shown.contains(": "), "{text:?}: {shown}");
    }
}

fn help_of(text: &str) -> String {
    match parse_message(text).unwrap() {
        Some(SlashCommand::Help(args)) => help_text(&args),
        other => panic!("{text:?} is {other:?}"),
    }
}

#[test]
fn help_comes_from_the_declaration() {
    let all = help_of("/help");
    assert!(
        all.starts_with("Anything that is not a command goes to the agent.\n\n- `/help [COMMAND]`: show the"),
        "{all}"
    );
    for line in [
        "- `/status`: show codebase, worktree, branch and agent of this conversation",
        "- `/retry`: run the last message again that was cut short",
        "- `/cwd [PATH]`: show or choose the directory of a conversation without a codebase",
        "- `/worktree …`: make, find and remove worktrees; `/worktree help` shows how",
        "- `/run NAME [ARGS]`: run a custom command",
        "- `/push`: push the worktree's branch",
        "- `/pr [TITLE]`: push the worktree's branch and open its pull request",
    ] {
        assert!(all.lines().any(|shown| shown == line), "{line}\n{all}");
    }
    assert!(all.contains("- `/trust [--yes]`: show the repository's scripts that wait for approval"), "{all}");
    let worktree = help_of("/worktree help");
    for line in [
        "- `/worktree create NAME [--from REF]`: make a worktree and work there",
        "- `/worktree link KIND-ID|BRANCH`: work in the worktree of other work",
        "- `/worktree sync`: bring what is new in the base into the worktree",
        "- `/worktree cleanup merged|stale [--dry-run]`: remove what is merged or stale",
    ] {
        assert!(worktree.lines().any(|shown| shown == line), "{line}\n{worktree}");
    }
    assert_eq!(worktree.lines().count(), 16, "{worktree}");
    assert_eq!(help_of("/status --help"), "`/status`: show codebase, worktree, branch and agent of this conversation");
    assert_eq!(
        help_of("/worktree help remove"),
        "`/worktree remove [NAME] [--force]`: remove a worktree; it can be brought back\n\
         - `NAME`: the worktree, by its branch or work; without it, the one of this conversation\n\
         - `--force`: remove it although something speaks against it"
    );
    assert_eq!(
        help_of("/help run"),
        "`/run NAME [ARGS]`: run a custom command\n\
         - `NAME`: the name of the custom command\n\
         - `ARGS`: its arguments\n\
         Write `/run NAME [ARGS]`; `/commands` lists the names."
    );
    assert!(help_of("/worktree sync --help").starts_with("`/worktree sync [NAME]`: bring"));
}
