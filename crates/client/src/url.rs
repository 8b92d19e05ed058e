//! A server and its credentials: `amqp[s]|ws[s]://[user[:password]@]host[:port][/path]`.

use crate::error::Error;

/// The transport to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `amqp`: AMQP over TCP
    Amqp,
    /// `amqps`: AMQP over TLS
    Amqps,
    /// `ws`: AMQP over WebSocket
    Ws,
    /// `wss`: AMQP over WebSocket over TLS
    Wss,
}

impl Scheme {
    /// Whether it uses TLS.
    #[must_use]
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Amqps | Self::Wss)
    }

    /// Whether it uses a WebSocket.
    #[must_use]
    pub fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// The port used when the URL names none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Amqp => 5672,
            Self::Amqps => 5671,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

/// A parsed URL; user and password are percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// the transport
    pub scheme: Scheme,
    /// SASL user
    pub user: Option<String>,
    /// SASL password
    pub password: Option<String>,
    /// name or address, without the brackets of IPv6
    pub host: String,
    /// TCP port
    pub port: u16,
    /// the path, percent-decoded, without the leading `/`; may be empty
    pub path: String,
}

impl std::fmt::Debug for Url {
    /// Shows no password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.server())
    }
}

impl Url {
    /// Reads a URL. Without a scheme it is `amqp`.
    ///
    /// # Errors
    /// `Invalid`, naming the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Amqp, text),
            Some(("amqp", rest)) => (Scheme::Amqp, rest),
            Some(("amqps", rest)) => (Scheme::Amqps, rest),
            Some(("ws", rest)) => (Scheme::Ws, rest),
            Some(("wss", rest)) => (Scheme::Wss, rest),
            Some((other, _)) => {
                return Err(Error::invalid(format!("URL scheme {other:?}: it must be amqp, amqps, ws or wss")));
            }
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some((user, password)) => {
                let has_password = login.is_some_and(|login| login.contains(':'));
                (Some(percent_decode(user)?), has_password.then(|| percent_decode(password)).transpose()?)
            }
        };
        let (host, port) = host_and_port(place, scheme)?;
        Ok(Self { scheme, user, password, host, port, path: percent_decode(path)? })
    }

    /// Scheme, host and port, for display and logs.
    #[must_use]
    pub fn server(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Amqp => "amqp",
            Scheme::Amqps => "amqps",
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
        };
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }

    /// Whether the host name denotes this machine: PLAIN without TLS is allowed only there.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

fn host_and_port(place: &str, scheme: Scheme) -> Result<(String, u16), Error> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None => return Err(Error::invalid(format!("URL host {place:?}: a port after ] must begin with a colon"))),
        },
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err(Error::invalid("URL without a host: write amqp://HOST:PORT"));
    }
    let port = match port {
        None => scheme.default_port(),
        Some(port) => port
            .parse()
            .map_err(|_| Error::invalid(format!("URL port {port:?}: it must be a number from 1 to 65535")))?,
    };
    Ok((host.to_owned(), port))
}

fn percent_decode(text: &str) -> Result<String, Error> {
    let fault = || Error::invalid("URL: % must be followed by two hexadecimal digits of UTF-8 text");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok()).ok_or_else(fault)?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(fault());
            }
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| fault())?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::{Scheme, Url};

    fn parse(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn every_part_of_a_url_is_parsed() {
        let url = parse("amqps://al%40ice:p%3Aw@broker.example:1234/orders/a%20b");
        assert_eq!(url.scheme, Scheme::Amqps);
        assert_eq!(url.user.as_deref(), Some("al@ice"));
        assert_eq!(url.password.as_deref(), Some("p:w"));
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("broker.example", 1234, "orders/a b"));
    }

    #[test]
    fn omitted_url_parts_have_defaults() {
        assert_eq!((parse("localhost").scheme, parse("localhost").port), (Scheme::Amqp, 5672));
        assert_eq!(parse("amqps://h").port, 5671);
        assert_eq!((parse("ws://h").port, parse("wss://h/mq").port), (80, 443));
        let url = parse("amqp://alice@h");
        assert_eq!((url.user.as_deref(), url.password), (Some("alice"), None));
        assert_eq!(parse("amqp://alice:@h").password.as_deref(), Some(""));
    }

    #[test]
    fn ipv6_host_is_parsed_in_brackets() {
        let url = parse("amqp://[::1]:5673/q");
        assert_eq!((url.host.as_str(), url.port), ("::1", 5673));
        assert_eq!(url.server(), "amqp://[::1]:5673");
        assert_eq!(parse("[::1]").port, 5672);
    }

    #[test]
    fn loopback_is_recognized_by_name_and_address() {
        assert!(parse("amqp://localhost").is_loopback() && parse("amqp://127.0.0.2").is_loopback());
        assert!(parse("[::1]").is_loopback() && !parse("amqp://10.0.0.1").is_loopback());
    }

    #[test]
    fn invalid_url_error_names_the_part() {
        for (text, part) in [
            ("http://h", "scheme"),
            ("amqp://", "host"),
            ("amqp://h:x", "port"),
            ("amqp://h:70000", "port"),
            ("amqp://[::1]5672", "host"),
            ("amqp://%zz@h", "%"),
            ("amqp://%+1@h", "%"),
            ("amqp://%f@h", "%"),
            ("amqp://%ff@h", "%"),
        ] {
            let message = Url::parse(text).unwrap_err().message;
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn url_password_is_absent_from_debug_output() {
        let url = parse("amqp://alice:secret@h/q");
        assert!(!format!("{url:?} {}", url.server()).contains("secret"));
    }
}
