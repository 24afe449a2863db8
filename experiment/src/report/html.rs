//! Pieces of HTML. Every text from outside passes [`escape`].

use crate::published::Verdict;

/// `text` as character data or as the value of a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // HTML has no control characters such as NUL.
            c if c.is_control() && c != '\n' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A whole document around `body`, which loads nothing and runs no script.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title),
        include_str!("page.css"),
    )
}

/// The style class of each policy: `p0`, grey, for the baseline, the colours `p1` to `p6` in turn for
/// the others.
pub(super) fn classes<'a>(
    policies: impl Iterator<Item = &'a str>,
    baseline: Option<&str>,
) -> Vec<String> {
    const COLOURS: usize = 6;
    let mut others = 0;
    let class = |policy| {
        if Some(policy) == baseline {
            return "p0".to_owned();
        }
        others += 1;
        format!("p{}", (others - 1) % COLOURS + 1)
    };
    policies.map(class).collect()
}

/// The style class of a verdict.
pub(super) const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::None => "",
        Verdict::Holds => "holds",
        Verdict::DirectionHolds => "direction",
        Verdict::Differs => "differs",
        Verdict::Unresolved
        | Verdict::Undetermined
        | Verdict::Calibrated
        | Verdict::NoInformation => "open",
    }
}

/// A table whose cells are plain text; the first cell of a row names it.
pub(super) struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(caption: &str, header: impl IntoIterator<Item = String>) -> Self {
        Self { caption: caption.to_owned(), header: header.into_iter().collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(super) fn html(&self) -> String {
        let mut html = String::from("<div class=\"scroll\"><table>");
        html += &format!("<caption>{}</caption><thead><tr>", escape(&self.caption));
        for cell in &self.header {
            html += &format!("<th scope=\"col\">{}</th>", escape(cell));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let cell = escape(cell);
                html += &match column {
                    0 => format!("<th scope=\"row\">{cell}</th>"),
                    _ => format!("<td>{cell}</td>"),
                };
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }
}

/// A plot with its title, its keys, what it shows, and its numbers.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) caption: String,
    /// Line or bar keys: class of the colour and name.
    pub(super) legend: Vec<(String, String)>,
    pub(super) svg: String,
    pub(super) numbers: Table,
    /// Takes the whole width of the page.
    pub(super) wide: bool,
}

impl Figure {
    pub(super) fn html(&self) -> String {
        let class = if self.wide { " class=\"wide\"" } else { "" };
        let mut html = format!("<figure{class}>\n<h3>{}</h3>\n", escape(&self.title));
        if self.legend.len() > 1 {
            html += "<ul class=\"legend\">";
            for (class, name) in &self.legend {
                html += &format!(
                    "<li><svg class=\"key {class}\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">\
                     <path class=\"line\" d=\"M1 5H27\"/></svg>{}</li>",
                    escape(name)
                );
            }
            html += "</ul>\n";
        }
        html += &self.svg;
        html += &format!("<figcaption>{}</figcaption>\n", escape(&self.caption));
        html += &format!(
            "<details><summary>Numbers</summary>\n{}</details>\n</figure>\n",
            self.numbers.html()
        );
        html
    }

    /// Title, keys and plot as an SVG document.
    pub(super) fn picture(&self) -> String {
        const WIDTH: f64 = 560.0;
        const KEY: f64 = 140.0;
        const PLOT: (f64, f64) = (540.0, 298.0);
        let across = ((WIDTH - 20.0) / KEY).floor();
        let mut keys = String::new();
        let mut top = 44.0;
        for (number, (class, name)) in self.legend.iter().enumerate() {
            let (row, column) = ((number as f64 / across).floor(), number as f64 % across);
            let (x, y) = (10.0 + column * KEY, 44.0 + row * 18.0);
            top = y;
            keys += &format!(
                "<g class=\"{class}\"><path class=\"line\" d=\"M{x} {y}h26\"/></g>\
                 <text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\n",
                x + 32.0,
                y + 4.0,
                escape(name)
            );
        }
        let top = top + 12.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n<style>\n{style}\
             svg {{ font-family: system-ui, sans-serif; }}\n</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"var(--card)\"/>\n\
             <text class=\"panel\" x=\"10\" y=\"22\">{title}</text>\n{keys}\
             <svg x=\"10\" y=\"{top}\" width=\"{}\" height=\"{}\">\n{plot}</svg>\n</svg>\n",
            PLOT.0,
            PLOT.1,
            height = top + PLOT.1 + 4.0,
            style = include_str!("page.css"),
            title = escape(&self.title),
            plot = self.svg,
        )
    }
}
