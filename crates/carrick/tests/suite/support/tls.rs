//! The first bytes of TLS connections, built by hand, so that unusual forms are possible, too.

/// A TLS 1.2/1.3 ClientHello (RFC 8446 section 4.1.2) in one record; `name` goes into the server name extension (RFC 6066).
pub fn client_hello(name: Option<&str>) -> Vec<u8> {
    let mut extensions = Vec::new();
    // supported_versions: TLS 1.3, TLS 1.2
    extension(&mut extensions, 43, &[4, 3, 4, 3, 3]);
    if let Some(name) = name {
        let mut entry = vec![0];
        entry.extend_from_slice(&length(name.len()));
        entry.extend_from_slice(name.as_bytes());
        let mut list = length(entry.len()).to_vec();
        list.extend_from_slice(&entry);
        extension(&mut extensions, 0, &list);
    }
    // supported_groups: x25519
    extension(&mut extensions, 10, &[0, 2, 0, 29]);
    let mut body = vec![3, 3];
    body.extend_from_slice(&[0x5a; 32]);
    body.extend_from_slice(&[0, 0, 4, 0x13, 0x01, 0x13, 0x02, 1, 0]);
    body.extend_from_slice(&length(extensions.len()));
    body.extend_from_slice(&extensions);
    let mut handshake = vec![1, 0];
    handshake.extend_from_slice(&length(body.len()));
    handshake.extend_from_slice(&body);
    records(&handshake, usize::MAX)
}

/// A ClientHello whose handshake message is spread over records of `record_bytes` (RFC 8446 section 5.1).
pub fn client_hello_in_records(name: &str, record_bytes: usize) -> Vec<u8> {
    records(&client_hello(Some(name))[5..], record_bytes)
}

fn records(handshake: &[u8], record_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in handshake.chunks(record_bytes) {
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&length(part.len()));
        bytes.extend_from_slice(part);
    }
    bytes
}

fn extension(out: &mut Vec<u8>, number: u16, content: &[u8]) {
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&length(content.len()));
    out.extend_from_slice(content);
}

fn length(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("short enough").to_be_bytes()
}
