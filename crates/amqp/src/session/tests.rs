//! Windows and numbers of one session endpoint.

use super::*;

fn session(first_id: u32, window: u32) -> Session {
    let config = Config { first_id, session_window: window, ..Config::default() };
    let mut session = Session::new(0, &config);
    let mut begin = session.begin(&config);
    begin.incoming_window = 10;
    begin.next_outgoing_id = 100;
    session.begun(3, &begin);
    session
}

#[test]
fn section_2_5_6_a_flow_is_due_at_half_of_the_window() {
    let mut session = session(0, 4);
    assert_eq!(session.count_incoming(), Some(false));
    assert_eq!(session.count_incoming(), Some(true));
    assert_eq!(session.count_incoming(), Some(false), "the flow is due once");
    let flow = session.flow_state();
    assert_eq!((flow.next_incoming_id, flow.incoming_window), (Some(103), 4));
    for _ in 0..4 {
        assert!(session.count_incoming().is_some());
    }
    assert_eq!(session.count_incoming(), None, "nothing was granted beyond");
}

#[test]
fn section_2_5_6_closed_window_accepts_transfers_granted_before() {
    let mut session = session(0, 4);
    assert!(session.set_held(true));
    assert!(!session.set_held(true));
    assert_eq!(session.flow_state().incoming_window, 0);
    for _ in 0..4 {
        assert_eq!(session.count_incoming(), Some(false));
    }
    assert_eq!(session.count_incoming(), None);
    assert!(!session.set_held(false));
    assert!(session.set_held(false));
    assert_eq!(session.flow_state().incoming_window, 4);
    assert!(session.count_incoming().is_some());
}

#[test]
fn section_2_5_6_remote_window_is_reduced_by_transfers_in_flight() {
    for first in [0, u32::MAX - 2] {
        let mut session = session(first, 4);
        let mut out = Vec::new();
        session.count_outgoing(10);
        assert_eq!(session.room(), 0);
        let flow = Flow { next_incoming_id: Some(first.wrapping_add(4)), incoming_window: 8, ..Flow::default() };
        assert_eq!(session.flow(&flow, &mut out), Ok(true));
        assert_eq!(session.room(), 2, "six of the eight are on the way");
        let flow = Flow { next_incoming_id: None, incoming_window: 12, ..Flow::default() };
        assert_eq!(session.flow(&flow, &mut out), Ok(false), "the window was open");
        assert_eq!(session.room(), 2, "a null id is the first one");
        let beyond = Flow { next_incoming_id: Some(first.wrapping_add(11)), ..Flow::default() };
        assert_eq!(session.flow(&beyond, &mut out).unwrap_err().condition, condition::INVALID_FIELD);
    }
}

#[test]
fn section_2_5_6_opening_window_releases_held_frames_first() {
    let mut session = session(0, 4);
    let mut out = Vec::new();
    session.count_outgoing(10);
    for byte in 0..3 {
        session.held.push(7, &[byte]);
    }
    let flow = Flow { next_incoming_id: Some(10), incoming_window: 2, ..Flow::default() };
    assert_eq!(session.flow(&flow, &mut out), Ok(false), "held frames use up the window");
    let flow = Flow { next_incoming_id: Some(12), incoming_window: 2, ..Flow::default() };
    assert_eq!(session.flow(&flow, &mut out), Ok(true));
    assert_eq!((out, session.room()), (vec![0, 1, 2], 1));
}

#[test]
fn section_2_6_12_delivery_ids_are_in_sequence() {
    let mut session = session(0, 4);
    assert_eq!(session.count_delivery(u32::MAX), Ok(()), "the first one is the peer's choice");
    assert_eq!(session.count_delivery(0), Ok(()));
    assert_eq!(session.count_delivery(0), Err(1));
    session.skip_delivery(Some(1));
    session.skip_delivery(Some(1));
    session.skip_delivery(None);
    assert_eq!(session.count_delivery(2), Ok(()));
}

#[test]
fn section_2_6_2_the_lowest_free_handle_is_used() {
    let mut session = session(0, 4);
    session.remote_handle_max = 2;
    assert_eq!([10, 11, 12].map(|place| session.take_handle(place)), [Some(0), Some(1), Some(2)]);
    assert_eq!(session.take_handle(13), None);
    session.free_handle(1);
    assert_eq!(session.places().collect::<Vec<_>>(), [10, 12]);
    assert_eq!((session.take_handle(14), session.take_handle(15)), (Some(1), None));
    assert_eq!(session.places().collect::<Vec<_>>(), [10, 14, 12]);
    for handle in [0, 2, 1] {
        session.free_handle(handle);
    }
    assert!(
        session.handles.places.is_empty() && session.handles.free.is_empty(),
        "nothing is kept for handles that were all given back"
    );
}
