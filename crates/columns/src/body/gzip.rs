//! Bodies with the content-encoding gzip (RFC 1952), decompressed within a bound.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use super::Reason;
use crate::BODY_SIZE_MAX;

/// Whether a content-encoding is gzip (RFC 9110, 8.4.1.3: `x-gzip` is the same, in any case).
pub(super) fn is_named(content_encoding: &str) -> bool {
    ["gzip", "x-gzip"].iter().any(|name| content_encoding.trim_ascii().eq_ignore_ascii_case(name))
}

/// The decompressed bytes of one or more members.
pub(super) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    let mut found = Vec::new();
    // one byte more shows that the body exceeds the bound
    let mut limited = MultiGzDecoder::new(bytes).take(BODY_SIZE_MAX as u64 + 1);
    limited.read_to_end(&mut found).map_err(|error| format!("content-encoding gzip: {error}"))?;
    if found.len() > BODY_SIZE_MAX {
        return Err(format!("content-encoding gzip: the body has more than {} MiB", BODY_SIZE_MAX >> 20));
    }
    Ok(found)
}
