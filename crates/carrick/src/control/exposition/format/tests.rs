//! Each client gets the format that it asks for; without a preference, the plain one.
use super::Format::{self, OpenMetrics, Plain};

#[test]
fn metrics_come_in_the_format_that_was_asked_for() {
    let cases = [
        ("", Plain),
        ("*/*", Plain),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Plain),
        ("text/plain", Plain),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Plain),
        ("application/json", Plain),
        ("application/openmetrics-text", OpenMetrics),
        (
            "Application/OpenMetrics-Text ; Version=\"1.0.0\"",
            OpenMetrics,
        ),
        ("application/*", OpenMetrics),
        ("application/openmetrics-text, */*", OpenMetrics),
        ("application/openmetrics-text;q=0.5, */*;q=0.5", OpenMetrics),
        ("application/openmetrics-text, text/plain", Plain),
        (
            "application/openmetrics-text;q=0.3, text/plain;q=0.4",
            Plain,
        ),
        (
            "application/openmetrics-text;q=0.4, text/plain;q=0.35",
            OpenMetrics,
        ),
        ("application/openmetrics-text;q=0.5, text/*;q=0.6", Plain),
        ("application/openmetrics-text;q=0, */*", Plain),
        ("application/openmetrics-text;q=0", Plain),
        ("text/plain;q=0, */*;q=0.5", OpenMetrics),
        // Not our version.
        ("application/openmetrics-text;version=0.0.1", Plain),
        (
            "application/openmetrics-text;version=0.0.1,text/plain;q=0.1",
            Plain,
        ),
        // An invalid weight makes the range void.
        ("application/openmetrics-text;q=high", Plain),
        ("application/openmetrics-text;q=1.5", Plain),
        (";;,/,=", Plain),
        // Prometheus 2, and 3.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OpenMetrics,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            OpenMetrics,
        ),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Plain,
        ),
    ];
    for (accept, format) in cases {
        assert_eq!(Format::asked_for(accept), format, "{accept}");
    }
}
