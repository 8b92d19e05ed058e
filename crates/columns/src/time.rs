//! Points in time as text: RFC 3339, and what else devices write.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat};

/// Microseconds since 1970 of `2026-11-21T10:00:00.5Z`, of the same with an offset, with a blank for the `T`, without a zone
/// (which is UTC then), or of a date alone (its midnight).
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.trim_ascii();
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_micros());
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, form) {
            return Some(time.and_utc().timestamp_micros());
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}

/// The same the other way: UTC, with as many digits of the second as there are.
pub(crate) fn write(out: &mut Vec<u8>, micros: i64) {
    match DateTime::from_timestamp_micros(micros) {
        Some(time) => out.extend_from_slice(time.to_rfc3339_opts(SecondsFormat::AutoSi, true).as_bytes()),
        // beyond the years that have a calendar
        None => out.extend_from_slice(micros.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, write};

    #[test]
    fn points_in_time_are_read() {
        for (text, micros) in [
            ("1970-01-01T00:00:01Z", Some(1_000_000)),
            ("1970-01-01T01:00:01.5+01:00", Some(1_500_000)),
            ("1970-01-01 00:00:01", Some(1_000_000)),
            ("1970-01-01T00:00:00.000001", Some(1)),
            ("1970-01-02", Some(86_400_000_000)),
            ("1969-12-31T23:59:59Z", Some(-1_000_000)),
            ("yesterday", None),
            ("1970-02-30", None),
            ("", None),
        ] {
            assert_eq!(parse(text), micros, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for micros in [0, 1, -1, 1_763_719_200_000_000, 999_999, -62_135_596_800_000_000] {
            let mut text = Vec::new();
            write(&mut text, micros);
            assert_eq!(parse(std::str::from_utf8(&text).unwrap()), Some(micros));
        }
    }
}
