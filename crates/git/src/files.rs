//! Reads files of a commit without a checkout.

use std::path::PathBuf;

use grove_model::CommitSha;

use crate::repository::next_object;
use crate::{GitError, Repository, parse};

/// A plain file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedFile {
    /// Relative to the top of the repository.
    pub path: PathBuf,
    pub size: u64,
    id: String,
}

impl Repository {
    /// Returns the plain files below these folders of a commit, sorted by path. Links and
    /// submodules are left out, and nothing is followed.
    pub async fn files_below(&self, commit: &CommitSha, folders: &[&str]) -> Result<Vec<CommittedFile>, GitError> {
        let listed = self.new_command("ls-tree").args(["-r", "-l", "-z", "--full-tree", commit.as_str(), "--"]);
        let listed = listed.args(folders).run().await?.stdout;
        let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        lines.filter_map(|line| committed_file(line).transpose()).collect()
    }

    /// Returns the contents of these files, in the same order.
    pub async fn read_files(&self, files: &[CommittedFile]) -> Result<Vec<Vec<u8>>, GitError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let questions: String = files.iter().map(|file| format!("{}\n", file.id)).collect();
        let output = self.new_command("cat-file").arg("--batch").with_stdin(questions).run().await?.stdout;
        let mut rest = &output[..];
        let mut read = Vec::new();
        for file in files {
            match next_object(&mut rest)? {
                Some(("blob", bytes)) => read.push(bytes.to_vec()),
                _ => return Err(GitError::unreadable_output("cat-file", format!("{} is not there", file.id))),
            }
        }
        Ok(read)
    }
}

/// Parses `<mode> <type> <id> <size>\t<path>`.
fn committed_file(line: &[u8]) -> Result<Option<CommittedFile>, GitError> {
    let unreadable = || GitError::unreadable_output("ls-tree", parse::text_excerpt(line));
    let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(unreadable)?;
    let header = std::str::from_utf8(&line[..tab]).map_err(|_| unreadable())?;
    let fields: Vec<&str> = header.split_whitespace().collect();
    let [mode, kind, id, size] = fields[..] else { return Err(unreadable()) };
    if kind != "blob" || !mode.starts_with("100") {
        return Ok(None);
    }
    let size = size.parse().map_err(|_| unreadable())?;
    Ok(Some(CommittedFile { path: parse::tracked_path(&line[tab + 1..])?, size, id: id.to_owned() }))
}
