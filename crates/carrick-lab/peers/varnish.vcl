# Varnish as benchmarked: what it does without being told, with connections to the server kept for an hour.
vcl 4.1;

backend origin {
    .host = "{{server}}";
    .port = "{{origin_port}}";
}
