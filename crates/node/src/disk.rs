//! Segments as files of one folder: `0000000042.log` is segment 42.
//!
//! Space is allocated when a file is created, so that a write within the file never fails because
//! the disk is full. On file systems without allocation zeros are written. Up to `OPEN_MAX` files
//! stay open, shared by readers.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_journal::log::{Disk, Fault};
use rustix::fs::{FallocateFlags, fallocate};

/// Most files that stay open.
const OPEN_MAX: usize = 256;
const SUFFIX: &str = ".log";
/// Only the owner may read messages, even if the folder is copied.
pub(crate) const PRIVATE: u32 = 0o600;
const ZEROS_BYTES: usize = 1 << 20;

/// A folder of segment files.
#[derive(Debug)]
pub struct FolderDisk {
    path: PathBuf,
    folder: File,
    open: Mutex<HashMap<u32, Arc<File>>>,
    /// segments that were created and not deleted: a missing one may become readable again
    known: Mutex<BTreeSet<u32>>,
}

impl FolderDisk {
    /// Uses a folder, which is created if it is missing. The caller locks it against a second
    /// process.
    ///
    /// # Errors
    /// The folder cannot be created, opened or synced.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        restrict_permissions(path)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        let (open, known) = (Mutex::default(), Mutex::default());
        Ok(Self { path: path.to_owned(), folder: File::open(path)?, open, known })
    }

    fn path_of(&self, segment: u32) -> PathBuf {
        self.path.join(format!("{segment:010}{SUFFIX}"))
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u32, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, segment: u32) -> Result<Arc<File>, Fault> {
        if let Some(file) = self.files().get(&segment) {
            return Ok(Arc::clone(file));
        }
        let opened = OpenOptions::new().read(true).write(true).open(self.path_of(segment));
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound if self.known().contains(&segment) => Fault::Failed(error.to_string()),
            _ => fault(error),
        })?;
        Ok(self.keep(segment, file))
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, segment: u32, file: File) -> Arc<File> {
        let file = Arc::new(file);
        let mut files = self.files();
        if files.len() >= OPEN_MAX
            && let Some(&oldest) = files.keys().min()
        {
            files.remove(&oldest);
        }
        files.insert(segment, Arc::clone(&file));
        file
    }

    fn make(&self, segment: u32, bytes: u64) -> io::Result<File> {
        let path = self.path_of(segment);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE).open(&path)?;
        let made = allocate(&file, bytes).and_then(|()| file.sync_all());
        if let Err(error) = made {
            drop(file);
            fs::remove_file(&path)?;
            return Err(error);
        }
        Ok(file)
    }
}

/// Restricts the permissions of files that an earlier version created.
fn restrict_permissions(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(PRIVATE))?;
        }
    }
    Ok(())
}

fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let zeros = vec![0; ZEROS_BYTES];
            let mut written = 0;
            while written < bytes {
                let step = (bytes - written).min(ZEROS_BYTES as u64);
                file.write_all_at(&zeros[..step as usize], written)?;
                written += step;
            }
            Ok(())
        }
        allocated => Ok(allocated?),
    }
}

fn fault(error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Fault::Full,
        ErrorKind::NotFound => Fault::Missing,
        _ => Fault::Failed(error.to_string()),
    }
}

impl Disk for FolderDisk {
    fn list(&self) -> Result<Vec<u32>, Fault> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(fault)? {
            let name = entry.map_err(fault)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse::<u32>().ok());
            numbers.extend(number);
        }
        self.known().extend(&numbers);
        Ok(numbers)
    }

    fn length(&self, segment: u32) -> Result<u64, Fault> {
        Ok(self.file(segment)?.metadata().map_err(fault)?.len())
    }

    fn create(&self, segment: u32, bytes: u64) -> Result<(), Fault> {
        let file = self.make(segment, bytes).map_err(fault)?;
        self.known().insert(segment);
        self.keep(segment, file);
        Ok(())
    }

    fn write(&self, segment: u32, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), Fault> {
        let file = self.file(segment)?;
        let mut at = offset;
        for part in parts {
            file.write_all_at(part, at).map_err(fault)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn read(&self, segment: u32, offset: u64, into: &mut [u8]) -> Result<usize, Fault> {
        let file = self.file(segment)?;
        let mut done = 0;
        while done < into.len() {
            match file.read_at(&mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(done)
    }

    fn sync(&self, segment: u32) -> Result<(), Fault> {
        self.file(segment)?.sync_data().map_err(fault)
    }

    fn sync_folder(&self) -> Result<(), Fault> {
        self.folder.sync_all().map_err(fault)
    }

    fn remove(&self, segment: u32) -> Result<(), Fault> {
        self.files().remove(&segment);
        self.known().remove(&segment);
        fs::remove_file(self.path_of(segment)).map_err(fault)
    }

    fn recycle(&self, from: u32, to: u32) -> Result<(), Fault> {
        let file = self.file(from)?;
        fs::rename(self.path_of(from), self.path_of(to)).map_err(fault)?;
        let mut files = self.files();
        files.remove(&from);
        files.insert(to, file);
        let mut known = self.known();
        known.remove(&from);
        known.insert(to);
        Ok(())
    }
}
