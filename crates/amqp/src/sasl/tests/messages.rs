//! Messages that are nearly right: each rule of the grammar, broken one at a time.

use proptest::prelude::*;

use crate::sasl::plain::PlainMessage;
use crate::sasl::scram::{ClientFinal, ClientFirst, ServerFinal, ServerFirst};

#[test]
fn client_first_message_is_parsed() {
    for (message, header, user) in [
        ("n,,n=user,r=abc", "n,,", "user"),
        ("y,,n=user,r=abc", "y,,", "user"),
        ("n,a=user,n=user,r=abc", "n,a=user,", "user"),
        ("n,,n=a=2Cb=3Dc,r=abc", "n,,", "a,b=c"),
        ("n,,n=user,r=abc,x=unknown,y=ignored", "n,,", "user"),
        ("n,a=a=2Cb,n=a=2Cb,r=abc", "n,a=a=2Cb,", "a,b"),
    ] {
        let parsed = ClientFirst::parse(message.as_bytes()).unwrap();
        assert_eq!((parsed.gs2_header, &*parsed.user, parsed.nonce), (header, user, "abc"), "{message}");
        assert_eq!(format!("{}{}", parsed.gs2_header, parsed.bare), message);
    }
}

#[test]
fn invalid_client_first_message_is_refused_with_the_broken_rule() {
    for (message, why) in [
        ("", "no header"),
        ("n", "no header"),
        ("n,", "no header"),
        ("n,,", "missing"),
        ("p=tls-unique,,n=user,r=abc", "channel binding is not offered"),
        ("x,,n=user,r=abc", "no channel binding flag"),
        ("N,,n=user,r=abc", "no channel binding flag"),
        ("n,user,n=user,r=abc", "no authzid"),
        ("n,a=other,n=user,r=abc", "as another user"),
        ("n,,m=must,n=user,r=abc", "mandatory extension"),
        ("n,,n=,r=abc", "user name"),
        ("n,,n=us=er,r=abc", "user name"),
        ("n,,n=us=2cer,r=abc", "user name"),
        ("n,,n=user=,r=abc", "user name"),
        ("n,,n=us\u{7}er,r=abc", "user name"),
        ("n,,n=user,r=", "nonce"),
        ("n,,n=user,r=a b", "nonce"),
        ("n,,n=user,r=ä", "nonce"),
        ("n,,n=user", "missing"),
        ("n,,r=abc,n=user", "missing"),
    ] {
        let refused = ClientFirst::parse(message.as_bytes()).unwrap_err();
        assert!(refused.0.contains(why), "{message:?} is refused because {:?}", refused.0);
    }
    assert!(ClientFirst::parse(b"n,,n=\xff,r=abc").unwrap_err().0.contains("UTF-8"));
}

#[test]
fn other_scram_messages_are_parsed_or_refused() {
    assert!(ServerFirst::parse(b"r=abc,s=AAAA,i=4096,x=ignored").is_ok());
    for bad in
        ["", "r=abc", "r=abc,s=AAAA", "r=abc,s=!,i=1", "r=abc,s=AAAA,i=0", "r=abc,s=AAAA,i=-1", "m=x,r=a,s=AAAA,i=1"]
    {
        assert!(ServerFirst::parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
    let last = ClientFinal::parse(b"c=biws,r=abc,x=ignored,p=AAAA").unwrap();
    assert_eq!((&*last.binding, last.nonce, last.without_proof), (&b"n,,"[..], "abc", "c=biws,r=abc,x=ignored"));
    for bad in [
        "",
        "c=biws",
        "c=biws,r=abc",
        "c=!,r=abc,p=AAAA",
        "r=abc,c=biws,p=AAAA",
        "c=biws,r=abc,p=!",
        "c=biws,r=abc,p=AAAA,x=y",
    ] {
        assert!(ClientFinal::parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
    assert_eq!(ServerFinal::parse(b"v=AAAA,x=ignored"), Ok(ServerFinal::Signature(vec![0; 3])));
    assert_eq!(ServerFinal::parse(b"e=invalid-proof"), Ok(ServerFinal::Error("invalid-proof".into())));
    for bad in ["", "v", "x=AAAA", "v=!", "\u{7}"] {
        assert!(ServerFinal::parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn invalid_plain_message_is_refused() {
    for message in [
        "",
        "user",
        "\0user",
        "user\0password",
        "\0user\0pass\0word",
        "\0\0password",
        "\0us\u{7}er\0pass",
        "boss\0user\0pass",
    ] {
        assert!(PlainMessage::parse(message.as_bytes()).is_err(), "{message:?}");
    }
    assert!(PlainMessage::parse(b"\0user\0\xff").is_err());
    assert_eq!(PlainMessage::parse("user\0user\0".as_bytes()).unwrap().password, "");
    assert_eq!(PlainMessage::parse("\0us\u{ad}er\0pass".as_bytes()).unwrap().user, "user", "prepared");
}

/// Text that SASLprep leaves as it is.
fn prepared_text() -> impl Strategy<Value = String> {
    "[ -~]{1,40}"
}

proptest! {
    #[test]
    fn user_name_round_trips_through_a_client_first_message(user in prepared_text(), nonce in "[!-+--~]{1,60}") {
        let (_, message) = crate::sasl::scram::ClientExchange::begin_with(
            crate::sasl::Hash::Sha256, &user, String::new(), nonce.clone(),
        );
        let parsed = ClientFirst::parse(&message).unwrap();
        prop_assert_eq!((parsed.user, parsed.nonce), (user, &*nonce));
    }

    #[test]
    fn server_first_message_round_trips(nonce in "[!-+--~]{1,60}", salt: Vec<u8>, iterations: std::num::NonZeroU32) {
        let first = ServerFirst { nonce: &nonce, salt, iterations };
        let written = first.write();
        prop_assert_eq!(ServerFirst::parse(written.as_bytes()).unwrap(), first);
    }

    #[test]
    fn plain_message_round_trips(user in prepared_text(), password in prepared_text()) {
        let message = PlainMessage::write(&user, &password);
        prop_assert_eq!(PlainMessage::parse(&message).unwrap(), PlainMessage { user, password: &password });
    }
}
