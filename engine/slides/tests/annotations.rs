//! Annotations against scikit-image, and damaged ones.

use hearth_slides::{
    Annotations, Area, Feature, Geometry, Pick, PyramidOptions, Shape, Slide, SlideOptions, contours, geojson, pyramid,
};
use proptest::prelude::*;
use serde_json::Value;

fn read(text: &str) -> Annotations {
    Annotations::from_bytes("a.xml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    Annotations::from_bytes("tumor_001.xml", text.as_bytes()).expect_err("damaged").to_string()
}

/// The format of CAMELYON16's files.
const ASAP: &str = r##"<?xml version="1.0"?>
<ASAP_Annotations>
	<Annotations>
		<Annotation Name="Annotation 0" Type="Polygon" PartOfGroup="_0" Color="#F4FA58">
			<Coordinates>
				<Coordinate Order="1" X="40" Y="10,0" />
				<Coordinate Order="0" X="10.0" Y="10.0" />
				<Coordinate Order="2" X="40" Y="40" />
				<Coordinate Order="3" X="10" Y="40" />
			</Coordinates>
		</Annotation>
		<Annotation Name="hole" Type="Spline" PartOfGroup="_2" Color="#F4FA58">
			<Coordinates>
				<Coordinate Order="0" X="20" Y="20" /><Coordinate Order="1" X="30" Y="20" />
				<Coordinate Order="2" X="30" Y="30" /><Coordinate Order="3" X="20" Y="30" />
			</Coordinates>
		</Annotation>
		<Annotation Name="mitosis" Type="Dot" PartOfGroup="None" Color="#F4FA58">
			<Coordinates><Coordinate Order="0" X="20" Y="20" /></Coordinates>
		</Annotation>
	</Annotations>
	<AnnotationGroups><Group Name="_0" PartOfGroup="None" Color="#00ff00"><Attributes /></Group></AnnotationGroups>
</ASAP_Annotations>"##;

/// The format of QuPath 0.5.
const QUPATH: &str = r#"{"type":"FeatureCollection","features":[
 {"type":"Feature","id":"a","geometry":{"type":"Polygon","coordinates":[
   [[10,10],[40,10],[40,40],[10,40],[10,10]],[[20,20],[30,20],[30,30],[20,30],[20,20]]]},
  "properties":{"objectType":"annotation","name":"one","classification":{"name":"Tumor","color":[200,0,0]}}},
 {"type":"Feature","id":"b","geometry":{"type":"MultiPolygon","coordinates":[
   [[[50,50],[60,50],[60,60],[50,60],[50,50]]],[[[70,70],[80,70],[80,80],[70,80],[70,70]],[[72,72],[78,72],[78,78],[72,78],[72,72]]]]},
  "properties":{"objectType":"annotation","classification":{"name":"Stroma"}}},
 {"type":"Feature","geometry":{"type":"Point","coordinates":[5,5]},"properties":{}}]}"#;

fn count(found: &Annotations, size: usize, pick: &Pick) -> usize {
    let area = Area { corner: [0.0; 2], scale: [1.0; 2], width: size, height: size };
    found.mask(&area, pick).iter().map(|v| usize::from(*v)).sum()
}

#[test]
fn asap_groups_are_classes_and_group_2_is_cut_out() {
    let found = read(ASAP);
    assert_eq!((found.classes(), found.ignored), (vec!["_0", "_2"], 1));
    assert_eq!(found.shapes[0].rings[0][0], [10.0, 10.0], "by Order, not by place");
    assert_eq!(count(&found, 60, &Pick::default()), 30 * 30 - 10 * 10);
    let all = Pick { exclude: Vec::new(), ..Pick::default() };
    assert_eq!(count(&found, 60, &all), 30 * 30);
    let second = Pick { include: vec!["_2".into()], exclude: Vec::new() };
    assert_eq!(count(&found, 60, &second), 10 * 10);
    assert!(found.contains([15.0, 15.0], &Pick::default()) && !found.contains([25.0, 25.0], &Pick::default()));
}

#[test]
fn qupath_polygons_have_holes_and_classes() {
    let found = read(QUPATH);
    assert_eq!((found.classes(), found.ignored, found.shapes[0].name.as_str()), (vec!["Tumor", "Stroma"], 1, "one"));
    assert_eq!(count(&found, 100, &Pick::default()), 800 + 100 + 100 - 36);
    let tumour = Pick { include: vec!["tumor".into()], exclude: Vec::new() };
    assert_eq!(count(&found, 100, &tumour), 800);
    // A bare list, and a bare geometry.
    let bare = read(
        r#"[{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,0]]]},"properties":{"classification":"T"}}]"#,
    );
    assert_eq!(bare.classes(), ["T"]);
    assert_eq!(read(r#"{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,0]]]}"#).shapes.len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let square = r#"<ASAP_Annotations><Annotations><Annotation Name="t" Type="Polygon" PartOfGroup="_0"><Coordinates>
        <Coordinate Order="0" X="1" Y="1"/><Coordinate Order="1" X="9" Y="1"/></Coordinates></Annotation></Annotations></ASAP_Annotations>"#;
    let text = error(square);
    assert!(text.contains("tumor_001.xml") && text.contains("\"t\"") && text.contains("a ring of 2 points"), "{text}");
    let text = error(
        r#"{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4]]]},"properties":{"name":"x"}}"#,
    );
    assert!(text.contains("not closed") && text.contains("(\"x\")"), "{text}");
    let text = error(r#"{"type":"Polygon","coordinates":[[[0,0],[4,0],[0,0]]]}"#);
    assert!(text.contains("a ring of 2 points"), "{text}");
    let text = error("<Annotations MicronsPerPixel='0.25'/>");
    assert!(text.contains("<Annotations>") && text.contains("<ASAP_Annotations>"), "{text}");
    for (bad, part) in [
        (r#"{"shapes":[]}"#, "FeatureCollection"),
        ("hello", "neither XML"),
        ("", "neither XML"),
        ("{", "not JSON"),
        ("<ASAP_Annotations>", "well-formed"),
        (r#"{"type":"Feature","geometry":{"type":"Curve","coordinates":[]}}"#, "\"Curve\""),
        (r#"{"type":"Polygon","coordinates":[[[0,"a"],[4,0],[0,0]]]}"#, "not a point"),
        (r#"{"type":"Polygon"}"#, "without coordinates"),
        (r#"{"type":"FeatureCollection"}"#, "features"),
        (&ASAP.replace("10,0", "ten"), "Y=\"ten\" is not a number"),
        (&ASAP.replace("10,0", "NaN"), "must be finite"),
        (&ASAP.replace(r#"Type="Dot""#, r#"Type="Blob""#), "\"blob\""),
    ] {
        assert!(error(bad).contains(part), "{bad}: {}", error(bad));
    }
    let found = read(ASAP);
    assert!(found.check((40, 40)).is_ok());
    let text = found.check((39, 50)).expect_err("beyond").to_string();
    assert!(text.contains("Annotation 0") && text.contains("(40, 10)") && text.contains("39 x 50"), "{text}");
    assert!(Annotations::open("/nowhere.xml").expect_err("no file").to_string().contains("/nowhere.xml"));
}

/// The results of scikit-image's `points_in_poly` for each pixel's centre, recorded by
/// `recorded/annotations.py`.
#[test]
fn masks_are_scikit_images() {
    let recorded: Value = serde_json::from_str(include_str!("recorded/annotations.json")).expect("JSON");
    let cases = recorded["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let pair = |value: &Value| [value[0].as_f64().expect("x"), value[1].as_f64().expect("y")];
        let rings = case["rings"].as_array().expect("rings");
        let rings = rings.iter().map(|ring| ring.as_array().expect("ring").iter().map(pair).collect()).collect();
        let rows: Vec<&str> = case["mask"].as_array().expect("rows").iter().filter_map(Value::as_str).collect();
        let area = Area {
            corner: pair(&case["corner"]),
            scale: pair(&case["scale"]),
            width: rows[0].len(),
            height: rows.len(),
        };
        let found = Annotations { shapes: vec![Shape { rings, ..Shape::default() }], ..Annotations::default() };
        let mask = found.mask(&area, &Pick::default());
        let got: Vec<String> =
            mask.chunks(area.width).map(|row| row.iter().map(|v| if *v == 1 { '#' } else { '.' }).collect()).collect();
        assert_eq!(got, rows);
    }
}

proptest! {
    /// The outlines of any mask reproduce the mask, also through GeoJSON.
    #[test]
    fn contours_give_the_mask_again(bits in proptest::collection::vec(0u8..2, 12 * 9), scale in 0.5f64..70.0) {
        let area = Area { corner: [3.0, 7.0], scale: [scale, scale * 1.01], width: 12, height: 9 };
        let shapes = contours(&bits, &area);
        let mut again = vec![0; bits.len()];
        for shape in &shapes {
            shape.paint(&area, 1, &mut again);
        }
        prop_assert_eq!(&again, &bits);
        for ring in shapes.iter().flat_map(|shape| &shape.rings) {
            let mut corners: Vec<String> = ring.iter().map(|point| format!("{point:?}")).collect();
            corners.sort();
            corners.dedup();
            prop_assert_eq!(corners.len(), ring.len(), "a ring that touches itself");
        }
        let features: Vec<Feature> = shapes.iter().cloned().map(Feature::from).collect();
        let read = Annotations::from_bytes("x.geojson", geojson(&features).as_bytes()).expect("sound");
        prop_assert_eq!(read.mask(&area, &Pick::default()), bits);
    }

    /// A mask equals the results of `contains` for the centres, including corners on centres.
    #[test]
    fn masks_and_points_agree(points in proptest::collection::vec((0u8..24, 0u8..24), 3..12)) {
        let ring = points.iter().map(|(x, y)| [f64::from(*x) / 2.0, f64::from(*y) / 2.0]).collect();
        let found = Annotations { shapes: vec![Shape { rings: vec![ring], ..Shape::default() }], ..Annotations::default() };
        let area = Area { corner: [0.0; 2], scale: [1.0; 2], width: 12, height: 12 };
        let mask = found.mask(&area, &Pick::default());
        for (i, value) in mask.iter().enumerate() {
            let centre = [(i % 12) as f64 + 0.5, (i / 12) as f64 + 0.5];
            prop_assert_eq!(*value == 1, found.contains(centre, &Pick::default()), "{:?}", centre);
        }
    }
}

#[test]
fn detections_are_points_with_measurements() {
    let feature = Feature {
        geometry: Geometry::Point([12.5, 7.0]),
        name: String::new(),
        class: "Tumor".into(),
        measurements: vec![("probability".into(), 0.75)],
    };
    let json: Value = serde_json::from_str(&geojson(&[feature])).expect("JSON");
    let written = &json["features"][0];
    assert_eq!(
        (written["geometry"]["coordinates"][0].as_f64(), json["type"].as_str()),
        (Some(12.5), Some("FeatureCollection"))
    );
    assert_eq!(written["properties"]["classification"]["name"], "Tumor");
    assert_eq!(written["properties"]["measurements"]["probability"], 0.75);
}

#[test]
fn a_written_pyramid_is_read_by_us_and_by_the_tiff_crate() {
    let (width, height) = (700, 301);
    let pixels: Vec<u8> = (0..width * height * 3).map(|i| (i / 3 % width / 3 + i % 3 * 40) as u8).collect();
    let options = PyramidOptions { tile: 128, mpp: Some(0.25), smallest: 100, description: "a test".into() };
    let file = pyramid(&pixels, width, height, &options).expect("sound");
    let slide = Slide::from_bytes("p.tif", file.clone(), &SlideOptions::default()).expect("a slide");
    let sizes: Vec<(usize, usize)> = slide.levels().iter().map(|level| (level.width, level.height)).collect();
    assert_eq!(sizes, [(700, 301), (350, 151), (175, 76), (88, 38)]);
    assert!(slide.mpp().is_some_and(|[x, y]| (x - 0.25).abs() < 1e-6 && (y - 0.25).abs() < 1e-6), "{:?}", slide.mpp());
    assert_eq!(slide.read_region(0, 0, 0, width, height).expect("read").as_u8(), Some(&pixels[..]));
    let half = slide.read_region(1, 10, 20, 1, 1).expect("read");
    let mean = |c: usize| {
        let at = |x: usize, y: usize| u32::from(pixels[(y * width + x) * 3 + c]);
        ((at(20, 40) + at(21, 40) + at(20, 41) + at(21, 41) + 2) / 4) as u8
    };
    assert_eq!(half.as_u8(), Some(&[mean(0), mean(1), mean(2)][..]));
    // Another reader, tile by tile.
    let mut decoder = tiff::decoder::Decoder::new(std::io::Cursor::new(file)).expect("a TIFF");
    assert_eq!(decoder.dimensions().expect("size"), (700, 301));
    let tiff::decoder::DecodingResult::U8(read) = decoder.read_image().expect("pixels") else { panic!("not u8") };
    assert_eq!(read, pixels);
    assert!(pyramid(&pixels[1..], width, height, &options).is_err());
    assert!(pyramid(&[], 0, 0, &options).is_err());
    assert!(pyramid(&[0; 4], 2, 2, &PyramidOptions { tile: 100, ..options }).is_err());
}

#[test]
fn an_area_of_a_slide_is_what_its_regions_are() {
    let pixels = vec![200; 64 * 48];
    let file = pyramid(&pixels, 64, 48, &PyramidOptions { smallest: 16, ..PyramidOptions::default() }).expect("sound");
    let slide = Slide::from_bytes("p.tif", file, &SlideOptions::default()).expect("a slide");
    let area = Area::of(&slide, 1, -2, 3, 20, 10).expect("a level");
    assert_eq!((area.corner, area.scale), ([-4.0, 6.0], [2.0, 2.0]));
    assert!(Area::of(&slide, 9, 0, 0, 1, 1).expect_err("no level").to_string().contains("level 9"));
    let found = Annotations {
        shapes: vec![Shape {
            rings: vec![vec![[0.0, 6.0], [10.0, 6.0], [10.0, 16.0], [0.0, 16.0]]],
            ..Shape::default()
        }],
        ..Annotations::default()
    };
    let mask = found.mask(&area, &Pick::default());
    let rows: Vec<usize> = mask.chunks(20).map(|row| row.iter().map(|v| usize::from(*v)).sum()).collect();
    assert_eq!(rows, [5, 5, 5, 5, 5, 0, 0, 0, 0, 0]);
    assert_eq!(&mask[..8], [0, 0, 1, 1, 1, 1, 1, 0]);
}
