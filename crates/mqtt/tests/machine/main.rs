//! The connection machine, byte by byte: a file per topic of the standards. Each test names the
//! statements that it keeps, `[5: ..]` of MQTT 5.0 and `[3: ..]` of 3.1.1;
//! `scripts/mqtt_conformance.py` collects them.

mod acknowledgements;
mod alias;
mod authentication;
mod closing;
mod connect;
mod deliveries;
mod first_packet;
mod fuzz;
mod keep_alive;
mod limits;
mod peer;
mod publish;
mod random;
mod resume;
mod subscribe;
