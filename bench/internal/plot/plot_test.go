package plot

import (
	"strings"
	"testing"
)

func TestSVG(t *testing.T) {
	chart := Chart{Title: "A & B", Columns: 2, Panels: []Panel{
		{Title: "bars", Unit: "events/s", Rows: []Row{
			{Label: "ours", Kind: Ours, Value: 50_000, Low: 40_000, High: 100_000},
			{Label: "other", Kind: Other, Value: 25_000, Low: 25_000, High: 25_000},
		}},
		{Title: "the same unit", Unit: "events/s", Rows: []Row{{Label: "one", Kind: Mode, Value: 50_000}}},
		{Title: "spans", Unit: "ms", Rows: []Row{{Label: "floor", Kind: Bound, Value: 1, To: 100}}},
	}}
	svg := string(chart.SVG())
	for _, want := range []string{"A &amp; B", ">50k<", ">1 – 100<", `class="ours"`, ">100k<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q:\n%s", want, svg)
		}
	}
	widths := func(class string) string {
		_, rest, _ := strings.Cut(svg, `<rect class="`+class+`"`)
		_, rest, _ = strings.Cut(rest, `width="`)
		width, _, _ := strings.Cut(rest, `"`)
		return width
	}
	if widths("ours") != widths("mode") || widths("ours") == widths("other") {
		t.Errorf("bars of 50k, 50k and 25k are %s, %s and %s wide", widths("ours"), widths("mode"), widths("other"))
	}
	if n := strings.Count(svg, `class="whisker"`); n != 1 {
		t.Errorf("%d whiskers, want one, where rounds differ", n)
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		high, most float64
		want       int // ticks, with the one at zero
	}{{100, 5, 6}, {99, 5, 5}, {73_000, 4, 4}, {1, 1, 2}, {0.3, 3, 4}} {
		s := linear([]Row{{Value: test.high}}, test.most)
		if len(s.ticks) != test.want || float64(len(s.ticks)-1) > test.most {
			t.Errorf("up to %f: ticks %v, want %d of them", test.high, s.ticks, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.123": 0.12345, "12.3": 12.34, "9.99": 9.994, "105": 105.2, "1234": 1234.4, "12.3k": 12_345,
		"124k": 123_500, "1M": 999_900, "1.23M": 1_234_000,
	} {
		if got := Short(v); got != want {
			t.Errorf("Short(%f) = %s, want %s", v, got, want)
		}
	}
}
