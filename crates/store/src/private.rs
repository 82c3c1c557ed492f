//! Files and folders for this user alone: they hold conversations and secrets.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What group and others may do, in a mode.
const OTHERS: u32 = 0o077;

/// In a folder with this bit, everybody keeps files of their own: `/tmp`.
const STICKY: u32 = 0o1000;

/// A file or folder that others can get at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    pub path: PathBuf,
    pub kind: ExposureKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExposureKind {
    /// Group or others have rights.
    Mode(u32),
    /// It belongs to another user.
    Owner(u32),
    /// It could not be looked at.
    Unknown(String),
}

/// Makes a folder, and those above it that are missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes an empty file, unless one is there.
pub fn create_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Takes the rights of group and others from a file or folder. What is not there needs none; a folder that is
/// everybody's by its nature is left alone, as is the root.
pub fn restrict(path: &Path) -> io::Result<()> {
    let Some(meta) = look_at(path)? else { return Ok(()) };
    let mode = meta.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    if meta.is_dir() && (mode & STICKY != 0 || path.parent().is_none()) {
        return Err(io::Error::other("it is a folder of everybody's"));
    }
    let own = if meta.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700 | own))
}

/// How others can get at a file or folder, if they can.
pub fn find_exposure(path: &Path, user: u32) -> Option<Exposure> {
    let kind = match look_at(path) {
        Ok(None) => return None,
        Ok(Some(meta)) if meta.uid() != user => ExposureKind::Owner(meta.uid()),
        Ok(Some(meta)) => match meta.permissions().mode() & 0o777 {
            mode if mode & OTHERS != 0 => ExposureKind::Mode(mode),
            _ => return None,
        },
        Err(error) => ExposureKind::Unknown(error.to_string()),
    };
    Some(Exposure { path: path.to_owned(), kind })
}

fn look_at(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
