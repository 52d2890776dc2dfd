//! Converts doc comments to text for recipe authors: examples in Rust and links to items are only for
//! the library's own pages.

/// Returns the text without its Rust examples, and with names instead of links to items.
pub fn prose(doc: &str) -> String {
    let mut kept = Vec::new();
    let mut fence: Option<bool> = None;
    for line in doc.lines() {
        let marker = line.trim_start().strip_prefix("```");
        match (fence, marker) {
            (None, Some(language)) => fence = Some(matches!(language.trim(), "" | "rust" | "no_run" | "ignore")),
            (Some(rust), Some(_)) => {
                fence = None;
                if rust {
                    continue;
                }
            }
            _ => {}
        }
        if fence != Some(true) {
            kept.push(line);
        }
    }
    let mut text = kept.join("\n");
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    without_item_links(text.trim_end())
}

/// ``[`super::Zoom`](path)`` and ``[`Zoom`]`` become `` `Zoom` ``; links to addresses stay.
fn without_item_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        plain.push_str(before);
        let Some((name, after)) = link.split_once("`]") else {
            plain.push_str("[`");
            rest = link;
            continue;
        };
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        match target {
            Some((address, _)) if address.contains("://") => {
                plain.push_str(&format!("[`{name}`]"));
                rest = after;
            }
            _ => {
                plain.push_str(&format!("`{}`", name.trim_start_matches("super::").trim_start_matches("crate::")));
                rest = target.map_or(after, |(_, after)| after);
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn examples_in_rust_go_and_others_stay() {
        let doc = "What it does.\n\n```\n# use a::B;\nB.run();\n```\n\nMore.\n\n```toml\nname = \"B\"\n```";
        assert_eq!(prose(doc), "What it does.\n\nMore.\n\n```toml\nname = \"B\"\n```");
    }

    #[test]
    fn links_to_items_become_names() {
        assert_eq!(prose("as [`super::Zoom`](crate::Zoom) and [`Pad`] do"), "as `Zoom` and `Pad` do");
        let address = "see [`Zoom`](https://example.org) and `[`, an [`open one";
        assert_eq!(prose(address), address);
    }
}
