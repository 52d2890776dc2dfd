//! A strict reader of pages: every element must be closed, every attribute quoted.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

/// Elements without an end tag.
const VOID: [&str; 5] = ["meta", "br", "img", "input", "link"];

/// An element.
#[derive(Clone, Debug, Default)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its attributes, with entities replaced.
    pub attributes: BTreeMap<String, String>,
    /// The text within it, including the text of elements in it.
    pub text: String,
    /// The elements around it, outermost first.
    pub around: Vec<String>,
}

impl Element {
    /// An attribute; empty if it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// The elements of a page in their order.
///
/// # Panics
/// If the page is not well-formed.
pub fn elements(page: &str) -> Vec<Element> {
    let mut all: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        let text = unescaped(&rest[..start]);
        open.iter().for_each(|place| all[*place].text.push_str(&text));
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('/') {
            let end = after.find('>').expect("an end of the tag");
            let place = open.pop().unwrap_or_else(|| panic!("</{}> closes nothing", &after[..end]));
            assert_eq!(all[place].name, after[..end], "closed in another order");
            rest = &after[end + 1..];
            continue;
        }
        let (element, after) = tag(rest);
        let around = open.iter().map(|place| all[*place].name.clone()).collect();
        let name = element.name.clone();
        all.push(Element { around, ..element });
        rest = after;
        if ["style", "script"].contains(&name.as_str()) {
            let end = rest.find(&format!("</{name}>")).expect("an end of the raw text");
            all.last_mut().expect("just added").text = rest[..end].to_owned();
            rest = &rest[end + name.len() + 3..];
        } else if !VOID.contains(&name.as_str()) {
            open.push(all.len() - 1);
        }
    }
    assert!(open.is_empty(), "not closed: {:?}", open.iter().map(|place| &all[*place].name).collect::<Vec<_>>());
    assert!(rest.trim().is_empty());
    all
}

/// A tag, after its `<`, and what follows it.
fn tag(text: &str) -> (Element, &str) {
    let end = text.find([' ', '>']).expect("an end of the name");
    let name = text[..end].to_owned();
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric()) && !name.is_empty(), "<{name}> is no element");
    let (mut attributes, mut rest) = (BTreeMap::new(), &text[end..]);
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return (Element { name, attributes, ..Element::default() }, after);
        }
        let end = rest.find(['=', ' ', '>']).expect("an end of the attribute");
        let attribute = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix("=\"") {
            let end = after.find('"').expect("a closing quote");
            value = unescaped(&after[..end]);
            rest = &after[end + 1..];
        }
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(attribute.chars().all(known) && !attribute.is_empty(), "{attribute:?} is no attribute of <{name}>");
        assert!(attributes.insert(attribute.clone(), value).is_none(), "{attribute} stands twice");
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The number of each element, and the text of each heading and table head: the structure of a page, a
/// line for each.
pub fn outline(elements: &[Element]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for element in elements {
        *counts.entry(&element.name).or_default() += 1;
    }
    let mut lines: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let shown = ["title", "h1", "h2", "h3", "th", "caption", "summary"];
    for element in elements.iter().filter(|element| shown.contains(&element.name.as_str())) {
        let text = element.text.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(format!("{}: {text}", element.name));
    }
    lines.join("\n") + "\n"
}
