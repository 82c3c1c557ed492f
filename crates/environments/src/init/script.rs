//! Finds the init script of a commit.

use grove_git::{GitError, Repository};
use grove_model::{CommitSha, short_hash};

/// The places of the script, in order; the second one is Automaker's.
pub const INIT_SCRIPT_PATHS: [&str; 2] = [".grove/worktree-init.sh", ".automaker/worktree-init.sh"];

/// An init script as a commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitScriptFile {
    pub path: &'static str,
    pub content: Vec<u8>,
    /// The SHA-256 of the content, as hexadecimal digits.
    pub hash: String,
}

impl InitScriptFile {
    fn new(path: &'static str, content: Vec<u8>) -> Self {
        let hash = short_hash(&content, 64);
        Self { path, content, hash }
    }

    /// Returns the command that runs the script at `path`, with its errors among its output. The program is
    /// the one of the `#!` line, else `sh`; the file itself is only read, so it needs no permission to run.
    pub fn command_at(&self, path: &str) -> Vec<String> {
        let first = self.content.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = first.strip_prefix(b"#!").map(|line| String::from_utf8_lossy(line).trim().to_owned());
        let line = line.filter(|line| !line.is_empty()).unwrap_or_else(|| "sh".to_owned());
        // As the kernel reads it: a program and at most one argument.
        let program =
            line.split_once([' ', '\t']).map_or(vec![line.as_str()], |(program, rest)| vec![program, rest.trim()]);
        let mut command = ["sh", "-c", "exec 2>&1; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
        command.extend(program.into_iter().chain([path]).map(str::to_owned));
        command
    }
}

/// Returns the init script of a commit, if it has one that is not empty.
pub async fn find_init_script(repo: &Repository, commit: &CommitSha) -> Result<Option<InitScriptFile>, GitError> {
    let files = repo.blobs_of(commit, &INIT_SCRIPT_PATHS).await?;
    let mut found = INIT_SCRIPT_PATHS.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?)));
    Ok(found
        .find(|(_, content)| !content.trim_ascii().is_empty())
        .map(|(path, content)| InitScriptFile::new(path, content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_interpreter() {
        let command = |content: &str| InitScriptFile::new("x", content.as_bytes().to_vec()).command_at("/s");
        assert_eq!(command("#!/usr/bin/env  python3 -u\nprint()\n")[4..], ["/usr/bin/env", "python3 -u", "/s"]);
        assert_eq!(command("#! /bin/bash\n")[4..], ["/bin/bash", "/s"]);
        for content in ["npm ci\n", "#!\nnpm ci\n"] {
            assert_eq!(command(content)[4..], ["sh", "/s"], "{content}");
        }
    }
}
