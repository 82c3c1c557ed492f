//! Files and folders for this user only: they contain conversations and secrets.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode bits of group and others.
const GROUP_AND_OTHERS_MASK: u32 = 0o077;

/// In a folder with this bit, every user keeps files of their own: `/tmp`.
const STICKY_BIT: u32 = 0o1000;

/// A file or folder that other users can access.
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
    /// It could not be inspected.
    Unknown(String),
}

/// Creates a folder, and its missing parents.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates an empty file, unless one exists.
pub fn create_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Takes the rights of group and others from a file or folder. A missing file needs no change; a folder that
/// is shared by its nature is left alone, as is the root.
pub fn restrict_permissions(path: &Path) -> io::Result<()> {
    let Some(meta) = look_at(path)? else { return Ok(()) };
    let mode = meta.permissions().mode();
    if mode & GROUP_AND_OTHERS_MASK == 0 {
        return Ok(());
    }
    if meta.is_dir() && (mode & STICKY_BIT != 0 || path.parent().is_none()) {
        return Err(io::Error::other("it is a folder of everybody's"));
    }
    let own = if meta.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700 | own))
}

/// Returns how other users can access a file or folder, if they can.
pub fn find_exposure(path: &Path, user: u32) -> Option<Exposure> {
    let kind = match look_at(path) {
        Ok(None) => return None,
        Ok(Some(meta)) if meta.uid() != user => ExposureKind::Owner(meta.uid()),
        Ok(Some(meta)) => match meta.permissions().mode() & 0o777 {
            mode if mode & GROUP_AND_OTHERS_MASK != 0 => ExposureKind::Mode(mode),
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
