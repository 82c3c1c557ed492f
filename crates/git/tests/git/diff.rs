//! The changes in a worktree, with every kind of file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use grove_git::diff::{DiffFormat, DiffOptions, diff_since};
use grove_testkit::{DirectorySnapshot, TestRepo};

use crate::{GitTest, with_every_git};

/// A worktree that a person's git made.
struct DiffTest<'a> {
    grove: &'a GitTest,
    dir: PathBuf,
    entry: PathBuf,
    began: String,
}

impl<'a> DiffTest<'a> {
    fn new(grove: &'a GitTest) -> Self {
        let dir = grove.test.temp_dir().join("x");
        grove.test.git(&["worktree", "add", "-q", "-b", "x", dir.to_str().unwrap()]);
        let entry = PathBuf::from(grove.test.git_in(&dir, &["rev-parse", "--absolute-git-dir"]));
        Self { entry, began: grove.test.resolve_sha("main"), dir, grove }
    }

    fn git(&self, args: &[&str]) {
        self.grove.test.git_in(&self.dir, args);
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.join(name), bytes).unwrap();
    }

    async fn text(&self, format: DiffFormat) -> (String, usize) {
        let options = DiffOptions { format, colour: false };
        let diff = diff_since(&self.grove.repo, &self.dir, &self.entry, &self.began, options).await.unwrap();
        (String::from_utf8_lossy(&diff.text).into_owned(), diff.nested_repositories)
    }

    async fn names(&self) -> Vec<String> {
        let (names, _) = self.text(DiffFormat::Names).await;
        names.split_terminator('\0').map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn every_kind_of_change_is_shown_and_nothing_is_touched() {
    with_every_git(TestRepo::with_git, async |grove| {
        let six_lines = "one\ntwo\nthree\nfour\nfive\nsix\n";
        for name in ["moved", "staged-move", "deleted", "folder"] {
            grove.test.write_file(name, &format!("{name}\n{six_lines}"));
        }
        grove.test.write_file(".gitignore", "ignored\n");
        grove.test.commit_all("files");
        let x = DiffTest::new(grove);
        x.write("committed", "committed\n");
        x.git(&["add", "committed"]);
        x.git(&["commit", "-q", "-m", "own"]);
        x.write("staged", "staged\n");
        x.git(&["add", "staged"]);
        x.git(&["mv", "staged-move", "staged-moved"]);
        x.write("README.md", "# Another project\n");
        fs::rename(x.dir.join("moved"), x.dir.join("moved-by-hand")).unwrap();
        fs::remove_file(x.dir.join("deleted")).unwrap();
        // A folder where a file was.
        fs::remove_file(x.dir.join("folder")).unwrap();
        fs::create_dir(x.dir.join("folder")).unwrap();
        x.write("folder/inside", "inside\n");
        x.write("-a \"name\" with 'quotes'", "new\n");
        x.write(":(glob)*", "new\n");
        x.write("binary", [0, 1, 2, 255]);
        x.write("empty", "");
        x.write("ignored", "ignored\n");
        x.write("program", "#!/bin/sh\n");
        fs::set_permissions(x.dir.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("program", x.dir.join("link")).unwrap();
        // A repository inside is another project.
        fs::create_dir(x.dir.join("nested")).unwrap();
        grove.test.git_in(&x.dir.join("nested"), &["init", "-q"]);
        x.write("nested/file", "theirs\n");

        let pictures = || {
            let objects = DirectorySnapshot::of_entry(&grove.repo.common_dir.join("objects"), &[]);
            (DirectorySnapshot::from_directory(&x.dir), DirectorySnapshot::of_git_dir(&grove.repo.common_dir), objects)
        };
        let before = pictures();
        let (patch, nested) = x.text(DiffFormat::Patch).await;
        let (stat, _) = x.text(DiffFormat::Stat).await;
        let names = x.names().await;
        let after = pictures();
        assert_eq!(before.0.describe_differences(&after.0), Vec::<String>::new());
        assert_eq!(before.1.describe_differences(&after.1), Vec::<String>::new());
        assert_eq!(before.2.describe_differences(&after.2), Vec::<String>::new());

        assert_eq!(nested, 1);
        for part in [
            "new file mode 100644\nindex 0000000..",
            "+committed\n",
            "+staged\n",
            "+# Another project\n",
            "rename from moved\nrename to moved-by-hand\n",
            "rename from staged-move\nrename to staged-moved\n",
            "--- a/deleted\n+++ /dev/null\n",
            "--- a/folder\n+++ /dev/null\n",
            "+++ b/folder/inside\n",
            "+++ \"b/-a \\\"name\\\" with 'quotes'\"",
            "Binary files /dev/null and b/binary differ\n",
            "diff --git a/empty b/empty\nnew file mode 100644\n",
            "diff --git a/program b/program\nnew file mode 100755\n",
            "diff --git a/link b/link\nnew file mode 120000\n",
        ] {
            assert!(patch.contains(part), "{part:?} is not in {patch}");
        }
        assert!(!patch.contains("ignored\n+") && !patch.contains("theirs"), "{patch}");
        assert!(stat.contains(" moved => moved-by-hand ") && stat.contains("| Bin 0 -> 4 bytes"), "{stat}");
        let mut expected = vec![
            "-a \"name\" with 'quotes'",
            ":(glob)*",
            "README.md",
            "binary",
            "committed",
            "deleted",
            "empty",
            "folder",
            "folder/inside",
            "link",
            "moved-by-hand",
            "program",
            "staged",
            "staged-moved",
        ];
        expected.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(names, expected);
    })
    .await;
}

#[tokio::test]
async fn a_split_index_and_sha256_are_fine() {
    with_every_git(TestRepo::with_git, async |grove| {
        grove.test.git(&["config", "core.splitIndex", "true"]);
        let x = DiffTest::new(grove);
        x.git(&["update-index", "--split-index"]);
        x.write("new", "new\n");
        let before = DirectorySnapshot::of_git_dir(&grove.repo.common_dir);
        assert_eq!(x.names().await, ["new"]);
        let after = DirectorySnapshot::of_git_dir(&grove.repo.common_dir);
        assert_eq!(before.describe_differences(&after), Vec::<String>::new());
    })
    .await;
    with_every_git(
        |git| {
            let repo = TestRepo::with_git(git);
            fs::remove_dir_all(repo.path().join(".git")).unwrap();
            repo.git(&["init", "-q", "--object-format=sha256"]);
            repo.commit_all("first");
            repo
        },
        async |grove| {
            let x = DiffTest::new(grove);
            x.write("new", "new\n");
            let (patch, _) = x.text(DiffFormat::Patch).await;
            assert!(patch.ends_with("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n"), "{patch}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_huge_file_is_only_named() {
    with_every_git(TestRepo::with_git, async |grove| {
        let x = DiffTest::new(grove);
        x.write("huge", vec![b'x'; 17 * 1024 * 1024]);
        let (patch, _) = x.text(DiffFormat::Patch).await;
        assert!(patch.ends_with("Binary files /dev/null and b/huge differ\n"), "{} bytes", patch.len());
    })
    .await;
}
