//! Pages: sums, links, and the paper's table.

use super::*;

fn check(page: &Page) {
    let base = page.base();
    assert_eq!(base.len() as u64, page.base_bytes(), "{}", page.path());
    let text = String::from_utf8(base).unwrap();
    assert_eq!(text.matches("<img src=").count() as u64, page.embedded());
    assert!(text.ends_with("-->"));
    let mut sum = page.base_bytes();
    for number in 1..=page.embedded() {
        let path = page.object_path(number);
        assert!(text.contains(&format!("\"{path}\"")), "{path}");
        let bytes = page.object_bytes();
        assert_eq!(find(&path), Some(Ok(Part::Object { bytes })));
        sum += bytes;
    }
    assert_eq!(sum, page.bytes);
}

#[test]
fn a_page_and_its_objects_share_the_bytes() {
    for (embedded, bytes) in [(0, 49), (0, 1000), (1, 1001), (7, 65536), (100, 1 << 20)] {
        let page = Page::new(embedded, bytes).unwrap();
        check(&page);
        assert!(page.base_bytes() - page.object_bytes() <= embedded || embedded == 0);
        assert_eq!(find(page.path()), Some(Ok(Part::Base(page))));
    }
}

#[test]
fn table_a1_is_the_papers() {
    // As the paper prints it: kilobytes of files 1 to 29, then objects and kilobytes of files 30 to 49.
    let text: [f64; 29] = [
        2.5, 10., 11., 16., 20., 21., 28., 37., 40., 42., 53., 65., 77., 80., 93., 120., 152.,
        160., 168., 180., 240., 320., 480., 560., 640., 720., 810., 900., 1000.,
    ];
    let embedded = [
        (16, &[2, 4, 9, 11, 15, 18][..]),
        (65, &[2, 3, 4, 7, 9, 11, 18, 19, 23]),
        (180, &[2, 5, 16, 21, 23]),
    ];
    let mut expected: Vec<(u64, u64)> = text
        .iter()
        .map(|kbytes| (0, (kbytes * 1024.0) as u64))
        .collect();
    for (kbytes, objects) in embedded {
        expected.extend(objects.iter().map(|&objects| (objects, kbytes << 10)));
    }
    assert_eq!(TABLE_A1.to_vec(), expected);
    for number in 1..=49 {
        let page = Page::of_table_a1(number).unwrap();
        assert_eq!(page.path(), format!("/a1/{number}"));
        assert!(page.base_bytes() >= page.frame_bytes(), "{number}");
        check(&page);
        assert_eq!(find(&format!("/a1/{number}")), Some(Ok(Part::Base(page))));
    }
}

#[test]
fn what_is_no_page_is_explained() {
    for (path, part) in [
        ("/page/3", "/page/OBJECTS/BYTES"),
        ("/page/x/100", "/page/OBJECTS/BYTES"),
        ("/page/1001/99999999", "at most 1000 objects"),
        ("/page/3/100", "a base page with 3 objects needs"),
        ("/page/2/10000/3", "has the objects 1 to 2"),
        ("/page/2/10000/", "has the objects 1 to 2"),
        ("/a1/0", "1 to 49"),
        ("/a1/50", "1 to 49"),
        (
            "/a1/30/3.gif",
            "has the objects 1 to 2, such as /a1/30/1.gif",
        ),
    ] {
        let said = find(path).unwrap().unwrap_err();
        assert!(said.contains(part), "{path}: {said}");
    }
    assert_eq!(find("/b/100"), None);
    assert_eq!(find("/pages/1/1"), None);
}
