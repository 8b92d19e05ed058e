//! Segments as files of a real folder.

use std::path::PathBuf;
use std::sync::Arc;

use enmasse_journal::log::{Config, Disk, Fault, Log, Removal, Target, WriteBatch};
use enmasse_node::FolderDisk;

/// A folder for one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("enmasse-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config() -> Config {
    Config { segment_bytes: 64 << 10, ..Config::default() }
}

#[test]
fn committed_records_are_recovered_and_files_are_reused() {
    let folder = Folder::new("disk");
    let (mut log, _) = Log::open(Arc::new(FolderDisk::open(&folder.0).unwrap()), config()).unwrap();
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    for seq in 0..2000 {
        let message = batch.message(&[Target { queue: 1, seq, head: &[] }], &[seq as u8; 1000]);
        log.append(&mut batch).unwrap();
        log.sync().unwrap();
        let place = batch.place(message);
        batch.clear();
        if seq % 100 != 0 {
            let mut removal = Removal::new(1);
            removal.add(seq, place);
            batch.remove(&mut removal);
        }
        while log.turn().unwrap() {}
    }
    log.append(&mut batch).unwrap();
    log.sync().unwrap();
    drop(log);
    let (log, recovered) = Log::open(Arc::new(FolderDisk::open(&folder.0).unwrap()), config()).unwrap();
    let mut buffer = Vec::new();
    let seqs: Vec<u64> = recovered.queues[0].messages().map(|message| message.seq).collect();
    assert_eq!(seqs, (0..20).map(|n| n * 100).collect::<Vec<_>>());
    for message in recovered.queues[0].messages() {
        assert_eq!(log.reader().read(message.place, &mut buffer).unwrap(), [message.seq as u8; 1000]);
    }
}

#[test]
fn absent_segment_is_missing_and_a_failed_creation_leaves_no_file() {
    let folder = Folder::new("disk-missing");
    let disk = FolderDisk::open(&folder.0).unwrap();
    assert_eq!(disk.length(3), Err(Fault::Missing));
    assert!(disk.create(3, u64::MAX >> 1).is_err());
    assert_eq!(disk.list(), Ok(vec![]));
    disk.create(3, 4096).unwrap();
    disk.recycle(3, 4).unwrap();
    assert_eq!((disk.list(), disk.length(4)), (Ok(vec![4]), Ok(4096)));
}

#[test]
fn segment_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new("disk-private");
    let modes = || {
        let files = std::fs::read_dir(&folder.0).unwrap();
        files.map(|one| one.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect::<Vec<_>>()
    };
    let (mut log, _) = Log::open(Arc::new(FolderDisk::open(&folder.0).unwrap()), config()).unwrap();
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    log.append(&mut batch).unwrap();
    drop(log);
    assert!(!modes().is_empty() && modes().iter().all(|mode| *mode == 0o600), "{:?}", modes());
    assert_eq!(std::fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&folder.0).unwrap() {
        std::fs::set_permissions(file.unwrap().path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    drop(FolderDisk::open(&folder.0).unwrap());
    assert!(modes().iter().all(|mode| *mode == 0o600), "{:?}", modes());
}
