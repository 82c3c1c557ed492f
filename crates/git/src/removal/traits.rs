//! The properties of a file besides its bytes, its mode and its time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{IFlags, fgetxattr, flistxattr, flistxattr_query, ioctl_getflags};
use rustix::io::Errno;

use crate::durable::write_synced;

/// The kernel limits both the list of names and each value to this size.
const MAX_ATTRIBUTE_BYTES: usize = 64 * 1024;

/// Owner, group, flags and extended attributes of a file. Access control lists, capabilities and security
/// labels are extended attributes. Writing a file's bytes again restores none of this, so a file may only be
/// written again if a new one gets the same traits. Holes do not count: the bytes are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileTraits {
    owner: (u32, u32),
    flags: IFlags,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl FileTraits {
    /// Returns the traits of a file that is created at `path` now. On a machine with security labels every
    /// file has one, and rules of the folder may set a group or an access list: only creating a file tells.
    pub fn of_new_file(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        write_synced(path, "")?;
        let traits = File::open(path).and_then(|file| Self::read_file_traits(&file));
        fs::remove_file(path)?;
        traits
    }

    pub fn read_file_traits(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { owner: (meta.uid(), meta.gid()), flags: flags_of(file)?, attributes: attributes_of(file)? })
    }
}

/// Returns the flags that a person or a program may have set (`chattr`); the file system manages
/// the others itself.
fn flags_of(file: &File) -> io::Result<IFlags> {
    /// `FS_VERITY_FL`: the file can no longer be written.
    const VERITY_FLAG: IFlags = IFlags::from_bits_retain(0x0010_0000);
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
        | VERITY_FLAG;
    match ioctl_getflags(file) {
        Ok(flags) => Ok(flags & chosen),
        // Not every file system has flags.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

fn attributes_of(file: &File) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // Most files have no attributes, which the length alone tells.
    match flistxattr_query(file) {
        // Not every file system has extended attributes.
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(BTreeMap::new()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    let length = flistxattr(file, &mut names[..])?;
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut attributes = BTreeMap::new();
    for name in names {
        let mut value = vec![0; MAX_ATTRIBUTE_BYTES];
        let length = fgetxattr(file, name, &mut value[..])?;
        value.truncate(length);
        attributes.insert(name.to_vec(), value);
    }
    Ok(attributes)
}
