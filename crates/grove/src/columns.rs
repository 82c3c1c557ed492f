//! A table with one line per row. Columns that do not fit into the terminal are left out, least important first.

use owo_colors::OwoColorize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The gap between two columns.
const GAP: &str = "  ";

/// The style of a cell on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellStyle {
    #[default]
    Plain,
    Strong,
    Dim,
    Red,
    Yellow,
    Green,
    Cyan,
    Blue,
}

impl CellStyle {
    pub fn apply(self, text: &str) -> String {
        match self {
            CellStyle::Plain => text.to_owned(),
            CellStyle::Strong => text.bold().to_string(),
            CellStyle::Dim => text.dimmed().to_string(),
            CellStyle::Red => text.red().to_string(),
            CellStyle::Yellow => text.yellow().to_string(),
            CellStyle::Green => text.green().to_string(),
            CellStyle::Cyan => text.cyan().to_string(),
            CellStyle::Blue => text.blue().to_string(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    pub style: CellStyle,
}

impl Cell {
    pub fn new(text: impl Into<String>, style: CellStyle) -> Self {
        // A line break in a cell would break the table.
        Self { text: text.into().replace(['\n', '\r', '\t'], " "), style }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, CellStyle::Plain)
    }
}

/// The column's name, and what happens to it where room is scarce.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// The column with the highest rank is left out first; rank 0 always stays.
    pub rank: u8,
    /// Cells may be cut to this width before any column is left out.
    pub min_width: usize,
}

/// The room for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableWidth {
    /// Everything is shown, however wide it is.
    Unlimited,
    Terminal(usize),
}

#[derive(Clone, Debug)]
pub struct ColumnTable {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl ColumnTable {
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub fn add_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Returns the lines of the table, the header first. A column that is empty in every row is left out of a
    /// terminal.
    pub fn render(&self, width: TableWidth, colored: bool) -> Vec<String> {
        let natural = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].text.width());
            cells.max().unwrap_or(0).max(self.columns[index].name.width())
        };
        let has_text = |index: usize| self.rows.iter().any(|row| !row[index].text.is_empty());
        let all = 0..self.columns.len();
        let widths: Vec<(usize, usize)> = match width {
            TableWidth::Unlimited => all.map(|index| (index, natural(index))).collect(),
            TableWidth::Terminal(room) => {
                let widths: Vec<_> =
                    all.filter(|index| has_text(*index)).map(|index| (index, natural(index))).collect();
                self.fit_columns(&widths, room)
            }
        };
        let header = self.columns.iter().map(|column| Cell::new(column.name.to_uppercase(), CellStyle::Dim)).collect();
        let line = |row: &Vec<Cell>| {
            let cells: Vec<String> = widths
                .iter()
                .map(|(index, width)| {
                    let text = cut_text(&row[*index].text, *width);
                    let padding = " ".repeat(width - text.width());
                    let text = if colored { row[*index].style.apply(&text) } else { text };
                    format!("{text}{padding}")
                })
                .collect();
            cells.join(GAP).trim_end().to_owned()
        };
        std::iter::once(&header).chain(&self.rows).map(line).collect()
    }

    /// Chooses the columns that fit, in the order of their ranks, with the width of each. A column that does not
    /// fit whole is cut down to its smallest width; if even that does not fit, all later ones are left out, too.
    fn fit_columns(&self, natural: &[(usize, usize)], room: usize) -> Vec<(usize, usize)> {
        let is_tight = natural.iter().map(|(_, width)| width + GAP.len()).sum::<usize>() > room + GAP.len();
        let mut by_rank = natural.to_vec();
        by_rank.sort_by_key(|(index, _)| self.columns[*index].rank);
        let mut left = room + GAP.len();
        let mut shown = Vec::new();
        for (index, natural) in &by_rank {
            let Column { rank, min_width, .. } = self.columns[*index];
            let smallest = min_width.min(*natural);
            // A column that always stays leaves room for others.
            let wanted = if rank == 0 && is_tight { (room / 3).clamp(smallest, *natural) } else { *natural };
            let width = if rank == 0 { wanted } else { wanted.min(left.saturating_sub(GAP.len())) };
            if width < smallest {
                break;
            }
            left = left.saturating_sub(width + GAP.len());
            shown.push((*index, width));
        }
        for (index, width) in &mut shown {
            let natural = by_rank.iter().find(|(other, _)| other == index).map_or(0, |(_, natural)| *natural);
            let more = (natural - *width).min(left);
            *width += more;
            left -= more;
        }
        shown.sort_unstable();
        shown
    }
}

/// Cuts a text to a width, with `…` at its end.
fn cut_text(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let kept: String = text
        .chars()
        .take_while(|c| {
            let fits = c.width().unwrap_or(0) <= room;
            room = room.saturating_sub(c.width().unwrap_or(0));
            fits
        })
        .collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_table() -> ColumnTable {
        let column = |name, rank, min_width| Column { name, rank, min_width };
        let mut table = ColumnTable::new(vec![
            column("state", 0, 10),
            column("branch", 0, 12),
            column("note", 1, 6),
            column("empty", 2, 5),
            column("path", 3, 20),
        ]);
        for (state, branch, note) in
            [("dirty", "a-very-long-branch-name-of-a-task", "1 untracked"), ("fresh", "ä漢字", "")]
        {
            let path = "/home/me/worktrees/owner/repo/folder";
            let cells = [state, branch, note, "", path];
            table.add_row(cells.iter().map(|text| Cell::plain(*text)).collect());
        }
        table
    }

    #[test]
    fn columns_give_way_by_rank_and_lines_never_wrap() {
        let table = sample_table();
        for room in 30..120 {
            let lines = table.render(TableWidth::Terminal(room), false);
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| line.width() <= room), "{room}: {lines:#?}");
            assert!(!lines[0].contains("EMPTY"), "{room}: {lines:#?}");
            assert!(lines[0].contains("NOTE"), "{room}: {lines:#?}");
            assert_eq!(lines[0].contains("PATH"), room >= 62, "{room}: {lines:#?}");
            assert!(lines[1].contains("dirty") && lines[1].contains("a-very-long"), "{room}: {lines:#?}");
        }
        assert_eq!(
            table.render(TableWidth::Terminal(30), false),
            ["STATE  BRANCH        NOTE", "dirty  a-very-long…  1 untrac…", "fresh  ä漢字"]
        );
        let whole = table.render(TableWidth::Unlimited, false);
        assert!(whole[0].contains("EMPTY") && whole[1].contains("a-very-long-branch-name-of-a-task"), "{whole:#?}");
    }
}
