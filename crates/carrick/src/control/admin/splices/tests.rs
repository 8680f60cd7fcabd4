//! Contents and order of the list of tunnels; every field is documented.
use super::*;
use crate::control::testing::{plan, state};
use crate::telemetry::tunnels::tests::about;
use crate::telemetry::tunnels::{About, Tunnel};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A state with tunnels that have moved these numbers of bytes.
fn state_with(bytes: impl IntoIterator<Item = u64>) -> Arc<ControlState> {
    let state = state(plan(None, Vec::new()));
    for (place, bytes) in bytes.into_iter().enumerate() {
        let about = About {
            bytes_before: [bytes, 0],
            ..about(place as u64 + 1)
        };
        let tunnel = Arc::new(Tunnel::new(about));
        state.workers[place % 2]
            .tunnels
            .set(place / 2, Some(tunnel));
    }
    state
}

fn read(splices: &Splices) -> Value {
    serde_json::to_value(splices).unwrap()
}

#[test]
fn the_largest_come_first_and_the_rest_is_counted() {
    let state = state_with((0..200).map(|number| number * 7 % 200));
    let json = read(&Splices::of(&state, LISTED_MAX));
    assert_eq!(json["in_kernel"], 0);
    assert_eq!(
        json["tunnels"],
        serde_json::json!({"copy": 200, "pipe": 0, "socket": 0, "packet": 0})
    );
    let list = json["list"].as_array().unwrap();
    assert_eq!(list.len(), LISTED_MAX);
    for (entry, bytes) in list.iter().zip((0..200).rev()) {
        assert_eq!(entry["client_to_upstream"]["bytes"], bytes);
    }
    let all: Value = serde_json::from_str(&super::json(&state).unwrap()).unwrap();
    assert_eq!(all["list"].as_array().unwrap().len(), 200);
}

#[test]
fn an_entry_has_client_and_destination() {
    let json = read(&Splices::of(&state_with([0, 5]), 1));
    let entry = &json["list"][0];
    assert_eq!(entry["id"], "2");
    assert_eq!(entry["class"], Value::Null);
    assert_eq!(
        json["uncounted_bytes"],
        serde_json::json!({"socket": 0, "packet": 0})
    );
    assert_eq!(entry["worker"], 1);
    assert_eq!(entry["mode"], "tunnel");
    assert_eq!(entry["listener"], "10.0.0.1:443");
    assert_eq!(entry["client"], "192.0.2.7:51234");
    assert_eq!(entry["target"], "a.example");
    assert_eq!(entry["upstream"], Value::Null);
    assert_eq!(entry["server"], "10.0.0.11:443");
    assert_eq!(entry["engine"], "copy");
    assert_eq!(entry["client_leg"], Value::Null);
    assert!(entry["client_to_upstream"]["backlog_bytes"].is_null());
}

#[test]
fn the_documentation_names_every_field() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    let leg = Leg::of(LiveLeg {
        rtt: Some(Duration::from_micros(80)),
        rtt_variation: Duration::from_micros(8),
        retransmissions: 1,
        congestion_window: 10,
        in_flight_bytes: 1,
        unsent_bytes: 2,
        unread_bytes: 3,
        send_memory_bytes: 4,
        state: "established",
    });
    let direction = Direction::of(
        7,
        Some(LiveDirection {
            forwarded_bytes: 1,
            relayed_bytes: 2,
            waiting_bytes: 3,
            backlog_bytes: Some(4),
        }),
    );
    let mut splices = Splices::of(&state_with([1]), 1);
    splices.unseen = Some("because".into());
    let json = read(&splices);
    let parts = [
        json["list"][0].clone(),
        serde_json::to_value(leg).unwrap(),
        serde_json::to_value(direction).unwrap(),
        json,
    ];
    for part in parts {
        for field in part.as_object().unwrap().keys() {
            assert!(
                text.contains(&format!("`{field}`")),
                "docs/operations.md does not document `{field}`"
            );
        }
    }
}
