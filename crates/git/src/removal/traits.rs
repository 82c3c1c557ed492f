//! What a file has besides its bytes, its mode and its time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{IFlags, fgetxattr, flistxattr, flistxattr_query, ioctl_getflags};
use rustix::io::Errno;

use crate::durable::write_synced;

/// The kernel lets neither a list of names nor a value grow beyond this.
const LARGEST_ATTRIBUTE: usize = 64 * 1024;

/// Owner, group, flags and extended attributes of a file. Access control lists, capabilities and
/// security labels are extended attributes. Nothing of this is written again with a file's bytes, so a
/// file may only be written again if a new one gets the same. Holes do not count: its bytes are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traits {
    owner: (u32, u32),
    flags: IFlags,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Traits {
    /// Those of a file that is written at `path` now. On a machine with security labels every file has
    /// one, and rules of the folder may set a group or an access list: only a file tells.
    pub fn of_new_file(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        write_synced(path, "")?;
        let traits = File::open(path).and_then(|file| Self::of(&file));
        fs::remove_file(path)?;
        traits
    }

    pub fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { owner: (meta.uid(), meta.gid()), flags: flags_of(file)?, attributes: attributes_of(file)? })
    }
}

/// Flags that somebody may have set (`chattr`); the others are the file system's own affair.
fn flags_of(file: &File) -> io::Result<IFlags> {
    /// `FS_VERITY_FL`: nobody may write the file any more.
    const VERITY: IFlags = IFlags::from_bits_retain(0x0010_0000);
    let chosen = IFlags::APPEND
        | IFlags::COMPRESSED
        | IFlags::DIRSYNC
        | IFlags::IMMUTABLE
        | IFlags::JOURNALING
        | IFlags::NOATIME
        | IFlags::NOCOW
        | IFlags::NODUMP
        | IFlags::NOTAIL
        | IFlags::PROJECT_INHERIT
        | IFlags::SECURE_REMOVAL
        | IFlags::SYNC
        | IFlags::UNRM
        | VERITY;
    match ioctl_getflags(file) {
        Ok(flags) => Ok(flags & chosen),
        // Not every file system has them.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

fn attributes_of(file: &File) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // Most files have none, which the length alone tells.
    match flistxattr_query(file) {
        // Not every file system has them.
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(BTreeMap::new()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut names = vec![0; LARGEST_ATTRIBUTE];
    let length = flistxattr(file, &mut names[..])?;
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut attributes = BTreeMap::new();
    for name in names {
        let mut value = vec![0; LARGEST_ATTRIBUTE];
        let length = fgetxattr(file, name, &mut value[..])?;
        value.truncate(length);
        attributes.insert(name.to_vec(), value);
    }
    Ok(attributes)
}
