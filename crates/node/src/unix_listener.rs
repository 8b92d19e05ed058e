//! The file of a listening Unix socket: who may connect, one left by a dead process, its removal.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::net::UnixListener;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::NodeError;

/// Reading and writing for owner and group: to connect is to write.
const MODE: u32 = 0o660;

/// The file of a socket that this process listens on. Dropped after the listener, it is removed,
/// unless another process has put its own socket there.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// device and inode, which another file may have once this one is removed
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity_of(&self.path).is_ok_and(|identity| identity == self.identity) {
            // A file that stays is replaced at the next start.
            let _ = remove_stale(&self.path);
        }
    }
}

/// Listens on `path`, with the permissions set before the first client can connect: until `listen`,
/// the system refuses every connection. Replaces the socket of a process that no longer listens.
///
/// # Errors
/// `Socket` if another process listens there, another file is there, or the system refuses it.
pub(crate) fn bind(path: &Path, backlog: i32) -> Result<(UnixListener, SocketFile), NodeError> {
    let failed = |reason: String| NodeError::Socket { path: path.to_owned(), reason };
    remove_stale(path).map_err(failed)?;
    let address = SockAddr::unix(path).map_err(|error| failed(error.to_string()))?;
    let bind = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address)?;
        let file = SocketFile { path: path.to_owned(), identity: identity_of(path)? };
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        socket.listen(backlog)?;
        Ok((UnixListener::from_std(socket.into()), file))
    };
    bind().map_err(|error: io::Error| failed(error.to_string()))
}

/// Removes the file at `path` if it is a socket without a listener.
fn remove_stale(path: &Path) -> Result<(), String> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !found.file_type().is_socket() {
        return Err("another file is there".to_owned());
    }
    let attempt = Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    });
    match attempt {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| format!("the socket of a dead process cannot be removed: {error}"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err("a socket of another user is there".to_owned())
        }
        // Also a full backlog (`WouldBlock`).
        _ => Err("another process listens there".to_owned()),
    }
}

fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::testing::Folder;

    #[test]
    fn owner_and_group_may_connect_and_the_file_goes_with_the_listener() {
        let folder = Folder::new("socket");
        let path = folder.path("mqtt.sock");
        let (listener, file) = bind(&path, 1).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        UnixStream::connect(&path).unwrap();
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn socket_in_use_is_refused_and_that_of_a_dead_process_is_replaced() {
        let folder = Folder::new("socket");
        let path = folder.path("mqtt.sock");
        let (listener, file) = bind(&path, 1).unwrap();
        let refused = bind(&path, 1).unwrap_err().to_string();
        assert!(refused.contains("another process listens") && refused.contains("mqtt.sock"), "{refused}");
        // A full backlog is not a dead process.
        let _waiting: Vec<_> = std::iter::repeat_with(|| {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let full = socket.connect(&SockAddr::unix(&path).unwrap()).is_err();
            (!full).then_some(socket)
        })
        .map_while(|socket| socket)
        .collect();
        assert!(bind(&path, 1).is_err());
        drop(listener);
        let successor = bind(&path, 1).unwrap();
        drop(file);
        assert!(path.exists(), "the former owner removes only its own file");
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_and_impossible_paths_are_refused_unchanged() {
        let folder = Folder::new("socket");
        let path = folder.path("notes");
        fs::write(&path, "kept").unwrap();
        let refused = bind(&path, 1).unwrap_err().to_string();
        assert!(refused.contains("another file"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        assert!(bind(&folder.path("none/mqtt.sock"), 1).unwrap_err().to_string().contains("No such file"));
        let long = folder.path(&"x".repeat(200));
        assert!(bind(&long, 1).is_err());
    }
}
