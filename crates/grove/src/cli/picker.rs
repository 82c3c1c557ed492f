//! Lets a person choose a worktree from a list that narrows while they type.

use dialoguer::console::Term;
use dialoguer::theme::ColorfulTheme;
use dialoguer::{Error, FuzzySelect};
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::problem::Problem;
use grove_environments::words::state::{describe_changes, describe_distance};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::words;

/// The columns that the list itself needs.
const LIST_MARGIN: usize = 4;

/// Shows the list on the standard error. Returns the chosen one; `None` if the person left with Esc or Ctrl-C.
pub fn pick_worktree(views: &[EnvironmentView], several: bool) -> Result<Option<&EnvironmentView>, Problem> {
    let terminal = Term::stderr();
    let width = usize::from(terminal.size().1).saturating_sub(LIST_MARGIN).max(20);
    let theme = ColorfulTheme::default();
    let select = FuzzySelect::with_theme(&theme).with_prompt("Go to").items(list_lines(views, several, width));
    match select.default(0).report(false).interact_on_opt(&terminal) {
        Ok(chosen) => Ok(chosen.and_then(|at| views.get(at))),
        Err(Error::IO(error)) if error.kind() == std::io::ErrorKind::Interrupted => {
            let _ = terminal.show_cursor();
            Ok(None)
        }
        Err(Error::IO(error)) => Err(words::terminal_failed(&error)),
    }
}

/// Returns a line for each worktree: branch, state, changes, distance to the base, and the codebase if there
/// are several. A line that is too long is cut.
fn list_lines(views: &[EnvironmentView], several: bool, width: usize) -> Vec<String> {
    let rows: Vec<[String; 4]> = views
        .iter()
        .map(|view| {
            let codebase = if several { format!("{}  ", view.codebase) } else { String::new() };
            let base = view.base.as_deref().unwrap_or_default();
            let distance = describe_distance(view.ahead, view.behind);
            let base = if distance.is_empty() { String::new() } else { format!("{base}{distance}") };
            [format!("{codebase}{}", view.branch), view.state.to_string(), describe_changes(view), base]
        })
        .collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or_default();
    let widths = [widest(0), widest(1), widest(2)];
    let padded = |text: &str, width: usize| format!("{text}{}", " ".repeat(width.saturating_sub(text.width())));
    let line = |row: &[String; 4]| {
        let cells: Vec<String> =
            row.iter().zip(widths.into_iter().chain([0])).map(|(text, w)| padded(text, w)).collect();
        cut_to_width(cells.join("  ").trim_end(), width)
    };
    rows.iter().map(line).collect()
}

fn cut_to_width(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    text.chars().filter(|c| !c.is_control()).take_while(fits).collect()
}
