//! The sentences of JMS 2.0, 3.8.1 (message selector) and those of 3.5 that it refers to, one test
//! each, in their order. The comment of a test is its sentence in short.

use enmasse_amqp::selector::{Dialect, Selector, Subject};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Value};

use super::Outcome::{Error, No, Unknown, Yes};
use super::{check, encoded, selects, with_properties};

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// The message on which all selectors are evaluated.
fn message() -> Message {
    let properties = Properties {
        message_id: Some(MessageId::String("ID:1".to_owned())),
        subject: Some("car".to_owned()),
        correlation_id: Some(MessageId::String("call-1".to_owned())),
        creation_time: Some(1_700_000_000_000),
        group_id: Some("group".to_owned()),
        group_sequence: Some(3),
        user_id: Some(b"joe".to_vec()),
        ..Properties::default()
    };
    let application = [
        ("age", Value::Int(17)),
        ("weight", Value::Long(2600)),
        ("small", Value::Byte(-3)),
        ("rate", Value::Float(1.5)),
        ("ratio", Value::Double(0.1)),
        ("on", Value::Bool(true)),
        ("off", Value::Bool(false)),
        ("color", text("blue")),
        ("Country", text("Peru")),
        ("phone", text("12993")),
        ("word", text("lose")),
        ("underscored", text("_foo")),
        ("quoted", text("literal's")),
        ("NumberOfOrders", text("2")),
        ("nothing", Value::Null),
        ("_x", Value::Int(1)),
        ("$y", Value::Int(2)),
        ("größe", Value::Int(3)),
        ("prop1.a", Value::Int(4)),
    ];
    Message {
        header: Some(Header { durable: true, priority: 7, delivery_count: 2, ..Header::default() }),
        properties: Some(properties),
        body: Body::Data(vec![b"color = 'red'".to_vec()]),
        ..with_properties(&application)
    }
}

macro_rules! sentences {
    ($($(#[doc = $sentence:literal])+ $name:ident { $($selector:literal $expected:ident)* })*) => {
        $(
            $(#[doc = $sentence])+
            #[test]
            fn $name() {
                let message = encoded(&message());
                for (selector, expected) in [$(($selector, $expected)),*] {
                    check(selector, Dialect::Jms, &message, expected);
                }
            }
        )*
    };
}

sentences! {
    /// A selector matches a message if it is true with the header fields and properties of the
    /// message in place of its identifiers.
    s01_selector_matches_header_fields_and_properties { "JMSType = 'car' AND color = 'blue' AND weight > 2500" Yes "color = 'red'" No }

    /// Selectors cannot refer to the body.
    s02_selector_cannot_refer_to_the_body { "body IS NULL" Yes }

    /// The order of evaluation is from left to right within a level of precedence; parentheses
    /// change it.
    s04_evaluation_is_left_to_right_unless_parenthesized {
        "10 - 3 - 2 = 5" Yes "10 - (3 - 2) = 9" Yes "100 / 10 / 5 = 2" Yes "100 / 10 * 5 = 50" Yes
        "2 + 3 * 4 = 14" Yes "(2 + 3) * 4 = 20" Yes "on OR on AND off" Yes "(on OR on) AND off" No
    }

    /// Names of literals and operators are in upper case here, and in any case in a selector.
    s05_keywords_are_case_insensitive {
        "on aNd nOt off oR faLse" Yes "age bEtween 1 And 20" Yes "Country lIKe 'P%' eScape '!'" Yes
        "Country iN ('Peru')" Yes "nothing iS nUll" Yes "on = tRUe" Yes
    }

    /// A string is in single quotes, with a quote inside doubled.
    s06_strings {
        "quoted = 'literal''s'" Yes "color = ''" No "'''' = ''''" Yes "color = 'blue" Error "color = \"blue\"" Error
    }

    /// Strings are Unicode.
    s07_strings_are_unicode { "'ü🐧' = 'ü🐧'" Yes "'ü' = 'u'" No }

    /// Exact numbers have no decimal point: 57, -957, +62, in the range of long.
    s08_exact_numbers {
        "57 = 57" Yes "-957 < +62" Yes "9223372036854775807 > 0" Yes "-9223372036854775808 < 0" Yes
        "9223372036854775808 > 0" Error "- 9223372036854775809 < 0" Error
    }

    /// Exact numbers are written as integers of Java: decimal, hexadecimal, octal, binary, with L,
    /// with underscores.
    s09_integers_of_java {
        "0x1F = 31" Yes "0XfL = 15" Yes "017 = 15" Yes "00 = 0" Yes "0 = 0L" Yes "2600l = weight" Yes "0b101 = 5" Yes
        "1_000 = 1000" Yes "0xFFFFFFFFFFFFFFFF = -1" Yes "08 = 8" Error "0x = 0" Error "0xG = 0" Error "0b2 = 0" Error
        "1_ = 1" Error "0x1FFFFFFFFFFFFFFFF = 1" Error "5x = 5" Error "0_7 = 7" Yes
    }

    /// Approximate numbers are in scientific notation (7E3, -57.9E2) or with a decimal point (7.,
    /// -95.7, +6.2), in the range of double.
    s10_approximate_numbers {
        "7E3 = 7000" Yes "-57.9E2 = -5790" Yes "7. = 7" Yes "-95.7 < +6.2" Yes ".5 = 0.5" Yes "1e-2 = 0.01" Yes
        "1E400 > 1" Error "7E = 7" Error "1.e1 = 10" Yes "1e+2 = 100" Yes
    }

    /// Approximate numbers are written as floating point of Java: with F or D, and hexadecimal.
    s11_floating_point_of_java {
        "1.5F = 1.5" Yes "0.1f = 0.1" No "0.1d = 0.1" Yes "3D = 3" Yes "0x1.8p1 = 3" Yes "0x10P-4 = 1" Yes
        "0x1.8 = 1" Error "1_0.5 = 10.5" Yes "1._5 = 1" Error
    }

    /// The booleans are TRUE and FALSE.
    s12_booleans { "TRUE" Yes "FALSE" No "on = TRUE" Yes "off = FALSE" Yes "on <> TRUE" No }

    /// Identifiers begin with a letter, _ or $ of Java and continue with letters, digits, _ and $.
    s13_identifiers { "_x = 1" Yes "$y = 2" Yes "größe = 3" Yes "1x = 1" Error "a# = 1" Error "@a = 1" Error }

    /// Identifiers are not NULL, TRUE, FALSE, NOT, AND, OR, BETWEEN, LIKE, IN, IS or ESCAPE.
    s14_keywords_are_not_identifiers {
        "NULL = 1" Error "and = 1" Error "OR = 1" Error "between = 1" Error "LIKE = 1" Error "in = 1" Error
        "IS = 1" Error "escape = 1" Error "not = 1" Error "TRUE = 1" No
    }

    /// Identifiers are header fields or properties, and case matters.
    s15_identifiers_are_case_sensitive { "country = 'Peru'" Unknown "Country = 'Peru'" Yes "jmstype = 'car'" Unknown }

    /// The type of an identifier is that of the value in the message; a missing value is NULL.
    s16_missing_value_is_null { "absent IS NULL" Yes "nothing IS NULL" Yes "age IS NULL" No "absent = 1" Unknown }

    /// Conversions of getters do not apply: a number that was set as a string is a string.
    s17_values_are_not_converted { "NumberOfOrders > 1" No "NumberOfOrders = 2" No "NumberOfOrders = '2'" Yes }

    /// The header fields are JMSDeliveryMode, JMSPriority, JMSMessageID, JMSTimestamp,
    /// JMSCorrelationID and JMSType.
    s18_header_fields {
        "JMSDeliveryMode = 'PERSISTENT'" Yes "JMSPriority = 7" Yes "JMSMessageID = 'ID:1'" Yes
        "JMSTimestamp = 1700000000000" Yes "JMSCorrelationID = 'call-1'" Yes "JMSType = 'car'" Yes
        "JMSDestination = 'a'" Error "JMSReplyTo IS NULL" Error "JMSExpiration = 0" Error "JMSRedelivered" Error
        "JMSPriorty = 1" Error
    }

    /// Names that begin with JMSX are properties that JMS defines.
    s19_properties_of_jms {
        "JMSXGroupID = 'group'" Yes "JMSXGroupSeq = 3" Yes "JMSXDeliveryCount = 3" Yes "JMSXUserID = 'joe'" Yes
        "JMSXAppID IS NULL" Yes
    }

    /// Names that begin with JMS_ are properties that the provider defines.
    s20_properties_of_the_provider { "JMS_AMQP_TTL IS NULL" Yes "JMS_Other IS NULL" Yes }

    /// Others are properties of the application.
    s21_properties_of_the_application { "age = 17" Yes "prop1.a = 4" Yes }

    /// White space is that of Java: space, tab, form feed and line terminators.
    s22_white_space { " \tage\x0c=\r\n17\n" Yes "age=17AND on" Error "age=17 AND(on)" Yes "age\u{a0}= 17" Error }

    /// A selector is a condition: true matches, false and unknown do not.
    s23_selectors_are_conditions {
        "age" Unknown "on" Yes "off" No "age + 1" Error "17" Error "'a'" Error "nothing" Unknown
    }

    /// Arithmetic is made of itself, operators, numeric identifiers and literals.
    s24_arithmetic {
        "-(age + 3) * 2 / 5 = -8" Yes "color + 1 = 1" Unknown "on + 1 = 1" Unknown "'a' + 1 = 1" Error
        "TRUE + 1 = 2" Error
    }

    /// Conditions are made of themselves, comparisons and logical operators.
    s25_conditions {
        "(age > 3) = on" Yes "(age > 3) <> TRUE" No "1 AND on" Error "NOT 1" Error "on OR 'a'" Error
        "NOT color" Unknown
    }

    /// Parentheses set the order.
    s26_parentheses { "((((age))) = (17))" Yes "(age = 17" Error "age = 17)" Error "()" Error }

    /// Logical operators in their order: NOT, AND, OR.
    s27_logical_operators {
        "NOT off AND off" No "NOT (off AND off)" Yes "off AND off OR on" Yes "NOT NOT on" Yes "on AND" Error
        "OR on" Error
    }

    /// The comparisons are =, >, >=, <, <=, <>.
    s28_comparisons {
        "age = 17" Yes "age <> 17" No "age > 17" No "age >= 17" Yes "age < 17" No "age <= 17" Yes "age == 17" Error
        "age != 17" Error "age => 17" Error "age = 17 = TRUE" Error "age =" Error "= 17" Error
    }

    /// Only values of like types compare, but exact and approximate numbers do, by the promotion of
    /// Java.
    s29_exact_compares_with_approximate {
        "rate = 1.5" Yes "age < 17.5" Yes "weight = 2.6E3" Yes "ratio = 0.1" Yes "small = -3." Yes
        "9007199254740993 = 9007199254740992." Yes
    }

    /// The comparison of unlike types is false.
    s30_unlike_types_are_false {
        "age = 'a'" No "age <> 'a'" No "color = 1" No "color > 1" No "on = 1" No "on <> 'TRUE'" No "'1' = 1" No
    }

    /// If a value is NULL, the comparison is unknown.
    s31_null_is_unknown {
        "nothing = 1" Unknown "1 <> nothing" Unknown "nothing = nothing" Unknown "nothing > 'a'" Error
    }

    /// Strings and booleans compare with = and <> only.
    s32_strings_and_booleans_have_no_order {
        "color = 'blue'" Yes "color <> 'red'" Yes "color > Country" No "on > off" No "on <= on" No
        "color < 'red'" Error "on > FALSE" Error "color BETWEEN 'a' AND 'c'" Error
    }

    /// Strings are equal if they have the same characters.
    s33_equal_strings { "color = 'blue'" Yes "color = 'Blue'" No "color = 'blue '" No }

    /// Arithmetic in its order: unary + and -, * and /, + and -.
    s34_order_of_arithmetic {
        "-2 * 3 + 4 = -2" Yes "-(2 * 3) + 4 = -2" Yes "4 - -2 = 6" Yes "+age = 17" Yes "-small = 3" Yes
    }

    /// Arithmetic follows the numeric promotion of Java.
    s35_promotion_of_java {
        "7 / 2 = 3" Yes "-7 / 2 = -3" Yes "7 / 2. = 3.5" Yes "age * rate = 25.5" Yes "1 / 0 = 1" Unknown
        "1 / 0. > 1E300" Yes
        "9223372036854775807 + 1 = -9223372036854775808" Yes "0. / 0 = 0. / 0" No "0. / 0 <> 1" Yes
    }

    /// BETWEEN: the same as >= and <=.
    s36_between {
        "age BETWEEN 15 AND 19" Yes "age BETWEEN 17 AND 17" Yes "age BETWEEN 18 AND 19" No "age BETWEEN 19 AND 15" No
    }

    /// NOT BETWEEN: the same as < or >.
    s37_not_between {
        "age NOT BETWEEN 15 AND 19" No "age NOT BETWEEN 18 AND 19" Yes "color NOT BETWEEN 1 AND 2" No
        "nothing BETWEEN 1 AND 2" Unknown "nothing NOT BETWEEN 1 AND 2" Unknown "age BETWEEN nothing AND 3" No
        "age BETWEEN 20 AND nothing" No "age BETWEEN 15 AND nothing" Unknown "age + 1 BETWEEN age AND age * 2" Yes
        "age BETWEEN 1" Error "age BETWEEN 1 OR 2" Error
    }

    /// IN: an identifier that is a string or NULL, and a list of strings.
    s38_in {
        "Country IN ('UK', 'US', 'Peru')" Yes "Country IN ('UK')" No "Country NOT IN ('UK', 'US', 'France')" Yes
        "Country NOT IN ('Peru')" No "'Peru' IN ('Peru')" Error "Country IN ()" Error "Country IN (1)" Error
        "Country IN ('a',)" Error "Country IN 'a'" Error "age IN ('17')" No "age NOT IN ('17')" Yes
        "Country IN (color)" Error
    }

    /// If the identifier of IN is NULL, it is unknown.
    s39_in_of_null { "nothing IN ('a')" Unknown "nothing NOT IN ('a')" Unknown }

    /// LIKE: _ is any one character, % any number of them, others are themselves.
    s40_like {
        "phone LIKE '12%3'" Yes "phone LIKE '12%4'" No "word LIKE 'l_se'" Yes "word LIKE 'l_e'" No "word LIKE '%'" Yes
        "word LIKE ''" No "word LIKE 'LOSE'" No "word LIKE '%o_e'" Yes "word LIKE '_%_%_%_'" Yes "word LIKE '_____'" No
        "word LIKE Country" Error "word LIKE 1" Error "word LIKE" Error "'lose' LIKE 'l%'" Error
    }

    /// ESCAPE: a string of one character, which takes the meaning of _ and % away.
    s41_escape {
        r"underscored LIKE '\_%' ESCAPE '\'" Yes r"word LIKE '\_%' ESCAPE '\'" No "phone NOT LIKE '12%3'" No
        "word NOT LIKE 'x%'" Yes "word LIKE '%' ESCAPE ''" Error "word LIKE '%' ESCAPE 'ab'" Error
        "word LIKE 'a!' ESCAPE '!'" Error "word LIKE 'l!!' ESCAPE '!'" No "underscored LIKE '__foo' ESCAPE '_'" Yes
    }

    /// If the identifier of LIKE is NULL, it is unknown.
    s42_like_of_null {
        "nothing LIKE '%'" Unknown "nothing NOT LIKE '%'" Unknown "age LIKE '17'" No "age NOT LIKE '17'" Yes
    }

    /// IS NULL tests for a header field or property without a value.
    s43_is_null {
        "nothing IS NULL" Yes "absent IS NULL" Yes "color IS NULL" No "1 IS NULL" Error "age IS 1" Error
        "(age + 1) IS NULL" Error
    }

    /// IS NOT NULL tests for one with a value.
    s44_is_not_null { "color IS NOT NULL" Yes "nothing IS NOT NULL" No "color NOT IS NULL" Error "age = NULL" Error }

    /// Example of the section.
    s46_example_of_the_section { "JMSType = 'car' AND color = 'blue' AND weight > 2500" Yes }

    /// Comparison or arithmetic with an unknown value gives an unknown value.
    s47_unknown_value_propagates {
        "nothing + 1 = 1" Unknown "-nothing = 1" Unknown "nothing * 0 = 0" Unknown "nothing > age" Unknown
    }

    /// Table 3-4, AND.
    s48_and {
        "on AND on" Yes "on AND off" No "on AND nothing" Unknown "off AND on" No "off AND off" No "off AND nothing" No
        "nothing AND on" Unknown "nothing AND off" No "nothing AND nothing" Unknown
    }

    /// Table 3-5, OR.
    s49_or {
        "on OR on" Yes "on OR off" Yes "on OR nothing" Yes "off OR on" Yes "off OR off" No "off OR nothing" Unknown
        "nothing OR on" Yes "nothing OR off" Unknown "nothing OR nothing" Unknown
    }

    /// Table 3-6, NOT.
    s50_not { "NOT on" No "NOT off" Yes "NOT nothing" Unknown }

    /// Special notes: decimal literals are approximate numbers, and no date or time literals are
    /// there.
    s51_date_literals_are_refused { "age = 17.0" Yes "JMSTimestamp > DATE '2020-01-01'" Error }
}

/// An empty selector is equivalent to no selector.
#[test]
fn s03_empty_selectors_select_everything() {
    for text in ["", " ", "\n\t\x0c\r\n"] {
        assert_eq!(Selector::compile(text, Dialect::Jms), Ok(None), "{text:?}");
    }
}

/// JMSMessageID, JMSCorrelationID and JMSType may be null and are then NULL; the others have a
/// value always.
#[test]
fn s45_header_fields_of_a_bare_message_are_null_or_default() {
    let bare = encoded(&with_properties(&[]));
    for (selector, expected) in [
        ("JMSMessageID IS NULL", Yes),
        ("JMSCorrelationID IS NULL", Yes),
        ("JMSType IS NULL", Yes),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", Yes),
        ("JMSPriority = 4", Yes),
        ("JMSTimestamp = 0", Yes),
        ("JMSXDeliveryCount = 1", Yes),
        ("JMSXGroupSeq IS NULL", Yes),
    ] {
        check(selector, Dialect::Jms, &bare, expected);
    }
}

/// 3.5.9, JMSXDeliveryCount: the number of this attempt. The count of the queue takes precedence
/// over the header.
#[test]
fn delivery_count_of_the_queue_overrides_the_header() {
    let selector = Selector::compile("JMSXDeliveryCount = 6", Dialect::Jms).unwrap().unwrap();
    let message = encoded(&message());
    assert!(!selector.selects(&Subject::new(&message)));
    assert!(selector.selects(&Subject::new(&message).delivery_count(5)));
    assert!(selector.selects(&Subject::new(&[]).delivery_count(5)));
    assert!(selector.varies());
    assert!(!Selector::compile("JMSPriority = 6", Dialect::Jms).unwrap().unwrap().varies());
}

/// The ids as the JMS mapping shows them.
#[test]
fn ids_are_formatted_as_in_the_jms_mapping() {
    let uuid = [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    let string = |text: &str| MessageId::String(text.to_owned());
    for (id, message_id, correlation_id) in [
        (string("ID:a"), "ID:a", "ID:a"),
        (string("a"), "ID:AMQP_NO_PREFIX:a", "a"),
        (string(""), "ID:AMQP_NO_PREFIX:", ""),
        (string("ID:AMQP_ULONG:7"), "ID:AMQP_STRING:ID:AMQP_ULONG:7", "ID:AMQP_STRING:ID:AMQP_ULONG:7"),
        (string("ID:AMQP_x"), "ID:AMQP_x", "ID:AMQP_x"),
        (MessageId::Ulong(u64::MAX), "ID:AMQP_ULONG:18446744073709551615", "ID:AMQP_ULONG:18446744073709551615"),
        (MessageId::Binary(vec![0x0a, 0xff]), "ID:AMQP_BINARY:0AFF", "ID:AMQP_BINARY:0AFF"),
        (
            MessageId::Uuid(uuid),
            "ID:AMQP_UUID:00112233-4455-6677-8899-aabbccddeeff",
            "ID:AMQP_UUID:00112233-4455-6677-8899-aabbccddeeff",
        ),
    ] {
        let ids = Properties { message_id: Some(id.clone()), correlation_id: Some(id), ..Properties::default() };
        let message = encoded(&Message { properties: Some(ids), ..Message::default() });
        let selector = format!("JMSMessageID = '{message_id}' AND JMSCorrelationID = '{correlation_id}'");
        assert!(selects(&selector, Dialect::Jms, &message), "{selector}");
    }
}

/// The names that the definition of `apache.org:selector-filter:string` gives to header fields.
#[test]
fn apache_selector_filter_field_names_are_supported() {
    let message = encoded(&message());
    for (selector, expected) in [
        ("amqp.correlation_id = 'call-1' AND color = 'blue' AND weight > 2500", Yes),
        ("amqp.message_id = 'ID:1'", Yes),
        ("amqp.delivery_mode = 'PERSISTENT'", Yes),
        ("amqp.redelivered", Yes),
        ("amqp.delivery_count = 2", Yes),
        ("amqp.priority = JMSPriority", Yes),
        ("amqp.durable", Yes),
        ("amqp.subject = JMSType", Yes),
        ("amqp.colour = 1", Error),
    ] {
        check(selector, Dialect::Jms, &message, expected);
    }
    assert!(!selects("amqp.redelivered", Dialect::Jms, &encoded(&with_properties(&[]))));
}
