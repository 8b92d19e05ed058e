//! The name in a client certificate: the last common name of its subject (RFC 5280, 4.1.2.6).
//!
//! The certificate was verified against the client CA before. The parser still never reads beyond
//! its bytes, and returns no name for an unknown structure.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version?, serialNumber, signature, issuer, validity,
//!                            subject SEQUENCE OF SET OF SEQUENCE { type OID, value }, .. }, .. }
//! ```

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The common name, if the subject has one that is text.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let mut certificate = Der(certificate).enter(SEQUENCE)?;
    let mut signed = certificate.enter(SEQUENCE)?;
    if signed.0.first() == Some(&VERSION) {
        signed.next()?;
    }
    for _serial_signature_issuer_validity in 0..4 {
        signed.next()?;
    }
    let mut subject = signed.enter(SEQUENCE)?;
    let mut found = None;
    while !subject.0.is_empty() {
        let mut names = subject.enter(SET)?;
        while !names.0.is_empty() {
            let mut pair = names.enter(SEQUENCE)?;
            let is_common_name = pair.enter(OID)?.0 == COMMON_NAME;
            let (kind, value) = pair.next()?;
            if is_common_name && matches!(kind, UTF8_STRING | PRINTABLE_STRING | IA5_STRING) {
                found = std::str::from_utf8(value).ok().map(str::to_owned);
            }
        }
    }
    found
}

/// The elements of a constructed value (X.690, distinguished encoding).
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element: its tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > 3 {
                return None;
            }
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Takes the next element, which must have this tag, and returns its content.
    fn enter(&mut self, tag: u8) -> Option<Self> {
        self.next().filter(|&(found, _)| found == tag).map(|(_, content)| Self(content))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::common_name;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, text) in names {
            params.distinguished_name.push(kind.clone(), *text);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn common_name_is_found_among_other_attributes() {
        let names = [(DnType::OrganizationName, "Org"), (DnType::CommonName, "dévice-7"), (DnType::CountryName, "DE")];
        assert_eq!(common_name(&certificate(&names)).as_deref(), Some("dévice-7"));
    }

    #[test]
    fn subject_without_a_common_name_has_no_name() {
        assert_eq!(common_name(&certificate(&[(DnType::OrganizationName, "Org")])), None);
        assert_eq!(common_name(&certificate(&[])), None);
    }

    #[test]
    fn truncated_or_corrupted_certificate_is_never_read_past_its_end() {
        let whole = certificate(&[(DnType::CommonName, "alice")]);
        for end in 0..whole.len() {
            common_name(&whole[..end]);
            for bit in [0x01, 0x80, 0xff] {
                let mut broken = whole.clone();
                broken[end] ^= bit;
                common_name(&broken);
            }
        }
    }
}
