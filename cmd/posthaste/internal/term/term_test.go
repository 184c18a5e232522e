package term

import (
	"strings"
	"testing"
)

func TestPlainStaysInItsCell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order-1":          "order-1",
		"ключ zürich":      "ключ zürich",
		"a\tb":             `"a\tb"`,
		"a\nb":             `"a\nb"`,
		"\x1b[2Jgone":      `"\x1b[2Jgone"`,
		"c1 \u009b31m":     `"c1 \u009b31m"`,
		"right to \u202e!": `"right to \u202e!"`,
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q is printed as %s, want %s", text, got, want)
		}
	}
}

func TestJSONCommandsNoTerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"a\": \"é\",\n\t\"b\": \"\\u0007\"}": "{\"a\": \"é\",\n\t\"b\": \"\\u0007\"}",
		"\"\u009b31m\"":                         `"\u009b31m"`,
		"\"\u202eright\x7f\"":                   `"\u202eright\u007f"`,
		"\"\U000e0041\"":                        `"\udb40\udc41"`,
	} {
		if got := (Screen{Terminal: true}).JSON([]byte(text)); string(got) != want {
			t.Errorf("%q is printed as %s, want %s", text, got, want)
		}
		if got := (Screen{}).JSON([]byte(text)); string(got) != text {
			t.Errorf("%q goes to a pipe as %s", text, got)
		}
	}
}

// What is no terminal gets neither colours nor a head nor a picture drawn anew.
func TestPipeIsPlain(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := On(&b)
	table := s.NewTable("A", "B")
	if err := table.Row("1", s.Bad("x")); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Redraw("end\n"); err != nil {
		t.Fatal(err)
	}
	if want := "1\tx\nend\n"; b.String() != want {
		t.Errorf("a pipe got %q, want %q", b.String(), want)
	}
}

func TestTerminalIsRedrawn(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := Screen{Writer: &b, Terminal: true, Colour: true, Moves: true}
	if err := s.Redraw(s.Bad("a") + "\nb\n"); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[H\x1b[31ma\x1b[0m\x1b[K\nb\x1b[K\n\x1b[J"; b.String() != want {
		t.Errorf("a terminal got %q, want %q", b.String(), want)
	}
}
