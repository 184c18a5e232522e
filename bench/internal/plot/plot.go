// Package plot draws figures of subjects as SVG: bars for amounts, spans for a median and what lies far above it. It
// knows just that, so it is small, and its files follow a page from light to dark.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Chart is one picture: panels beside and below each other. Bars of all panels that have one unit share a scale, and so
// do spans, so that lengths can be compared.
type Chart struct {
	Title   string
	Note    string // a line below the title
	Columns int    // panels beside each other
	Panels  []Panel
}

// Panel is one measure of several subjects.
type Panel struct {
	Title string
	Unit  string
	Rows  []Row
}

// Row is one subject: a bar to Value, or, with To, a span from Value to To. A panel is of bars or of spans; spans have
// a logarithmic axis, and all numbers are positive.
type Row struct {
	Label     string
	Kind      Kind
	Value, To float64
	Low, High float64 // what Value was at least and at most; equal for no whisker
}

// Kind is what a subject is, which gives its colour.
type Kind string

// The kinds.
const (
	Ours  Kind = "ours"  // what it is about
	Mode  Kind = "mode"  // the same with another setting
	Other Kind = "other" // what it is compared with
	Bound Kind = "bound" // what nothing can pass
)

// Measures of the picture, in pixels.
const (
	width     = 880.0
	margin    = 20.0
	head      = 64.0
	gutter    = 142.0 // for labels
	tail      = 62.0  // for the value beside the longest bar
	rowHeight = 22.0
	barHeight = 13.0
	panelHead = 30.0
	panelFoot = 34.0
	gap       = 24.0
	tickWidth = 44.0 // that a tick needs
)

const style = `
svg { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.paper { fill: #ffffff; } text { fill: #1f2933; } .title { font-size: 17px; font-weight: 600; }
.note, .tick { fill: #66727f; } .tick { font-size: 10.5px; } .panel { font-weight: 600; } .value { font-size: 11.5px; }
.grid { stroke: #e4e8ec; } .axis { stroke: #aab4be; } .whisker { stroke: #1f2933; stroke-opacity: .55; }
.ours { fill: #0b7a75; stroke: #0b7a75; } .mode { fill: #7cc0ba; stroke: #7cc0ba; }
.other { fill: #d9822b; stroke: #d9822b; } .bound { fill: #c3ccd5; stroke: #8794a1; }
.span { stroke-width: 3; stroke-opacity: .45; stroke-linecap: round; } .far { fill: #ffffff; stroke-width: 2; }
.strong { font-weight: 600; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0f1419; } text { fill: #dfe6ec; } .note, .tick { fill: #8b98a5; } .grid { stroke: #232b33; }
.axis { stroke: #4a5661; } .whisker { stroke: #dfe6ec; } .ours { fill: #2bb3a9; stroke: #2bb3a9; }
.mode { fill: #1c6f69; stroke: #1c6f69; } .other { fill: #e39a4f; stroke: #e39a4f; }
.bound { fill: #46525e; stroke: #6d7a87; } .far { fill: #0f1419; }
}
`

// canvas is a picture that is being drawn.
type canvas struct{ bytes.Buffer }

// SVG draws the chart.
func (c Chart) SVG() []byte {
	columns := max(1, min(c.Columns, len(c.Panels)))
	across := (width - 2*margin - gap*float64(columns-1)) / float64(columns)
	var body canvas
	y := head
	for i := 0; i < len(c.Panels); i += columns {
		line := c.Panels[i:min(i+columns, len(c.Panels))]
		tallest := 0.0
		for n, p := range line {
			body.panel(p, c.like(p), margin+float64(n)*(across+gap), y, across)
			tallest = max(tallest, p.height())
		}
		y += tallest
	}
	height := y + margin/2
	var out canvas
	out.draw(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" `+
		`aria-label="%s">`, num(width), num(height), num(width), num(height), escape(c.Title))
	out.draw("<style>%s</style>", style)
	out.draw(`<rect class="paper" width="%s" height="%s" rx="6"/>`, num(width), num(height))
	out.text("title", "start", margin, 30, c.Title)
	out.text("note", "start", margin, 48, c.Note)
	out.Write(body.Bytes())
	out.draw("</svg>")
	return out.Bytes()
}

// like returns the rows of all panels that share this one's scale.
func (c Chart) like(p Panel) (rows []Row) {
	for _, other := range c.Panels {
		if other.Unit == p.Unit && other.spans() == p.spans() {
			rows = append(rows, other.Rows...)
		}
	}
	return rows
}

func (p Panel) spans() bool { return len(p.Rows) > 0 && p.Rows[0].To > 0 }

func (p Panel) height() float64 { return panelHead + float64(len(p.Rows))*rowHeight + panelFoot }

// panel draws a panel with its upper left corner at x, y, to the scale of more rows than its own.
func (c *canvas) panel(p Panel, scaled []Row, x, y, across float64) {
	left, right := x+gutter, x+across-tail
	if p.spans() {
		right -= 22 // two values
	}
	scale := linear(scaled, (right-left)/tickWidth)
	if p.spans() {
		scale = logarithmic(scaled)
	}
	at := func(v float64) float64 { return left + scale.share(v)*(right-left) }
	top := y + panelHead
	bottom := top + float64(len(p.Rows))*rowHeight + 4
	c.text("panel", "start", x, y+14, p.Title)
	c.text("tick", "end", x+gutter-8, bottom+15, p.Unit)
	for _, tick := range scale.ticks {
		c.draw(`<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/>`,
			num(at(tick)), num(top-4), num(bottom))
		c.text("tick", "middle", at(tick), bottom+15, Short(tick))
	}
	c.draw(`<line class="axis" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/>`, num(left), num(top-4), num(bottom))
	for i, r := range p.Rows {
		middle := top + (float64(i)+.5)*rowHeight
		class := "label"
		if r.Kind == Ours {
			class = "strong"
		}
		c.text(class, "end", left-8, middle+4, r.Label)
		if p.spans() {
			c.span(r, at(r.Value), at(r.To), middle)
		} else {
			c.bar(r, left, at, middle)
		}
	}
}

func (c *canvas) bar(r Row, left float64, at func(float64) float64, middle float64) {
	c.draw(`<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="1.5" stroke="none"/>`, string(r.Kind), num(left),
		num(middle-barHeight/2), num(at(r.Value)-left), num(barHeight))
	end := at(r.Value)
	if r.High > r.Low {
		c.draw(`<path class="whisker" fill="none" d="M%[1]s %[2]sH%[3]sM%[1]s %[4]sv6M%[3]s %[4]sv6"/>`,
			num(at(r.Low)), num(middle), num(at(r.High)), num(middle-3))
		end = at(r.High)
	}
	c.text("value", "start", end+6, middle+4, Short(r.Value))
}

func (c *canvas) span(r Row, from, to, middle float64) {
	c.draw(`<line class="span %[1]s" x1="%[2]s" y1="%[3]s" x2="%[4]s" y2="%[3]s"/>`,
		string(r.Kind), num(from), num(middle), num(to))
	c.draw(`<circle class="%s" cx="%s" cy="%s" r="5"/>`, string(r.Kind), num(from), num(middle))
	c.draw(`<circle class="%s far" cx="%s" cy="%s" r="4.5"/>`, string(r.Kind), num(to), num(middle))
	c.text("value", "start", to+10, middle+4, Short(r.Value)+" – "+Short(r.To))
}

func (c *canvas) text(class, anchor string, x, y float64, text string) {
	c.draw(`<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, num(x), num(y), escape(text))
}

func (c *canvas) draw(format string, args ...any) {
	fmt.Fprintf(c, format, args...)
	c.WriteByte('\n')
}

// scale leads from values to shares of the axis.
type scale struct {
	ticks []float64
	share func(v float64) float64
}

// linear begins at zero and ends at the highest value, with at most so many ticks.
func linear(rows []Row, most float64) scale {
	high := 0.0
	for _, r := range rows {
		high = max(high, r.Value, r.High)
	}
	if high <= 0 {
		high = 1
	}
	least := high / most
	step := math.Pow(10, math.Ceil(math.Log10(least)))
	for _, nice := range []float64{.2, .5} {
		if nice*step >= least {
			step *= nice
			break
		}
	}
	var ticks []float64
	for n := 0.0; n*step <= high*(1+1e-9); n++ { // 3 times 0.1 is more than 0.3
		ticks = append(ticks, n*step)
	}
	return scale{ticks, func(v float64) float64 { return v / high }}
}

// logarithmic has room for all values and a tick at 1, 3 and 10 of every power of ten.
func logarithmic(rows []Row) scale {
	low, high := math.Inf(1), 0.0
	for _, r := range rows {
		low, high = min(low, r.Value), max(high, r.To)
	}
	low, high = low/1.3, high*1.05
	var ticks []float64
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, n := range []float64{1, 3} {
			if v := n * math.Pow(10, power); v >= low && v <= high {
				ticks = append(ticks, v)
			}
		}
	}
	return scale{ticks, func(v float64) float64 { return math.Log(v/low) / math.Log(high/low) }}
}

// Short prints a number as briefly as a picture wants it: three digits that say something, thousands as k.
func Short(v float64) string {
	unit := ""
	switch {
	case v >= 999_500:
		v, unit = v/1e6, "M"
	case v >= 9_995:
		v, unit = v/1e3, "k"
	case v >= 1000:
		return strconv.Itoa(int(math.Round(v)))
	}
	return strconv.FormatFloat(round(v), 'f', -1, 64) + unit
}

// round keeps three digits.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(math.Round(v/unit)*unit, 'g', 6, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// num prints a coordinate.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes everything
	return out.String()
}
