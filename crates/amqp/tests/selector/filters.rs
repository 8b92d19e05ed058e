//! Selectors among the filters of a source, as clients send them.

use enmasse_amqp::selector::{FilterFault, Filters, Subject};
use enmasse_amqp::types::{Error, Fields, Symbol, Value, condition};

use super::{encoded, with_properties};

fn described(descriptor: Value, text: &str) -> Value {
    Value::Described(Box::new((descriptor, Value::String(text.to_owned()))))
}

fn filter(key: &str, value: Value) -> (Symbol, Value) {
    (Symbol::from(key), value)
}

fn selects(filters: &Fields, a: i32) -> bool {
    let filters = Filters::compile(filters).unwrap();
    let message = encoded(&with_properties(&[("a", Value::Int(a))]));
    filters.selector.is_none_or(|selector| selector.selects(&Subject::new(&message)))
}

#[test]
fn selector_is_accepted_in_every_known_filter_form() {
    let jms = || Value::Symbol(Symbol::from("apache.org:selector-filter:string"));
    let sql = || Value::Symbol(Symbol::from("amqp:sql-filter"));
    for one in [
        filter("jms-selector", described(Value::Ulong(0x0000_468c_0000_0004), "a = 1")), // Qpid JMS
        filter("apache.org:selector-filter:string", described(jms(), "a = 1")),          // Proton, go-amqp
        filter("whatever", described(jms(), "a = 1")),
        filter("sql-filter", described(Value::Ulong(0x120), "a.a = 1")),
        filter("whatever", described(sql(), "application_properties.a = 1")),
        filter("jms-selector", Value::String("a = 1".to_owned())),
        filter("apache.org:selector-filter:string", Value::String("a = 1".to_owned())),
        filter("selector", Value::String("a = 1".to_owned())),
        filter("sql-filter", Value::String("a.a = 1".to_owned())),
    ] {
        let filters = vec![one];
        assert_eq!(Filters::compile(&filters).unwrap().understood, filters);
        assert!(selects(&filters, 1) && !selects(&filters, 2), "{filters:?}");
    }
}

#[test]
fn unknown_filters_are_ignored() {
    let no_local = Value::Symbol(Symbol::from("apache.org:no-local-filter:list"));
    let filters = vec![
        filter("no-local", Value::Described(Box::new((no_local, Value::List(vec![]))))),
        filter("selector", described(Value::Symbol(Symbol::from("other:selector")), "not ours (")),
        filter("offset", Value::String("first".to_owned())),
    ];
    assert_eq!(Filters::compile(&filters).unwrap(), Filters::default());
    assert_eq!(Filters::compile(&Fields::new()).unwrap(), Filters::default());
}

#[test]
fn several_selectors_must_all_be_true() {
    let filters = vec![
        filter("one", described(Value::Ulong(0x0000_468c_0000_0004), "a > 1 OR FALSE")),
        filter("offset", Value::String("first".to_owned())),
        filter("two", described(Value::Ulong(0x120), "a.a < 4 AND a % 2 = 1 AND (a + (1 - (2 - a))) <> 0")),
        filter("three", described(Value::Ulong(0x120), " ")),
    ];
    assert_eq!(Filters::compile(&filters).unwrap().understood.len(), 3);
    let chosen: Vec<_> = (0..6).filter(|a| selects(&filters, *a)).collect();
    assert_eq!(chosen, [3]);
}

#[test]
fn blank_selectors_select_everything() {
    let filters = vec![filter("selector", Value::String(String::new()))];
    let compiled = Filters::compile(&filters).unwrap();
    assert_eq!((compiled.selector, compiled.understood), (None, filters));
}

#[test]
fn invalid_filter_is_named_in_the_error() {
    let wrong = vec![filter("mine", described(Value::Ulong(0x120), "a = 1 AND\n b ="))];
    let error = Filters::compile(&wrong).unwrap_err();
    let FilterFault::Selector(fault) = &error.fault else { panic!("{error}") };
    assert_eq!((fault.offset, fault.line, fault.column), (14, 2, 5));
    assert_eq!(
        error.to_string(),
        "filter 'mine': selector, line 2, column 5: the selector ends; expected a name, a literal or ("
    );
    assert_eq!(Error::from(error).condition, condition::INVALID_FIELD);
    let number = Value::Described(Box::new((Value::Ulong(0x120), Value::Int(1))));
    let error = Filters::compile(&vec![filter("mine", number)]).unwrap_err();
    assert_eq!(error.to_string(), "filter 'mine': a selector is a string");
}
