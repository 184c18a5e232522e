// Package term knows whether a person at a terminal reads what a command writes, and how to make it easier on the eye
// there. In a pipe everything is plain: no colour, no alignment, nothing rewritten.
package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
)

// Screen is a command's output.
type Screen struct {
	io.Writer
	Terminal bool // a person reads it
	Colour   bool // colours are understood and wanted
	Moves    bool // the cursor can be moved
}

// On finds out what is at the other end of w. By custom, not by a setting of ours, NO_COLOR (no-color.org) and
// TERM=dumb turn colours off.
func On(w io.Writer) Screen {
	s := Screen{Writer: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Terminal = true
	s.Moves = os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
	s.Colour = s.Moves && os.Getenv("NO_COLOR") == ""
	return s
}

// The colours, by what they mean.
const (
	bold = "1"
	good = "32"
	warn = "33"
	bad  = "31"
	dim  = "2"
)

func (s Screen) in(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Bold, Good, Warn, Bad and Dim return the text in a colour that says so, or as it is.
func (s Screen) Bold(text string) string { return s.in(bold, text) }
func (s Screen) Good(text string) string { return s.in(good, text) }
func (s Screen) Warn(text string) string { return s.in(warn, text) }
func (s Screen) Bad(text string) string  { return s.in(bad, text) }
func (s Screen) Dim(text string) string  { return s.in(dim, text) }

// Redraw shows a text in place of the one before: from the top of the screen, without a flicker. Where the cursor can't
// be moved the text is appended.
func (s Screen) Redraw(text string) error {
	if s.Moves {
		// Home, each line with its rest cleared, then everything below.
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	}
	_, err := io.WriteString(s, text)
	return err
}

// Table writes rows: aligned under a head for a person, else their cells between tabs and no head, for cut and awk.
type Table struct {
	screen Screen
	out    io.Writer
	tabs   *tabwriter.Writer
}

// NewTable begins a table. Close ends it: until then nothing need have been written.
func (s Screen) NewTable(head ...string) *Table {
	t := &Table{screen: s, out: s}
	if s.Terminal {
		t.tabs = tabwriter.NewWriter(s, 0, 0, 2, ' ', 0)
		t.out = t.tabs
		_ = t.Row(slices.Clone(head)...) // it goes to memory
	}
	return t
}

// Row writes one row.
func (t *Table) Row(cells ...string) error {
	for i, cell := range cells {
		cells[i] = Plain(cell)
	}
	_, err := io.WriteString(t.out, strings.Join(cells, "\t")+"\n")
	return err
}

// Close writes what is still to be written.
func (t *Table) Close() error {
	if t.tabs == nil {
		return nil
	}
	return t.tabs.Flush()
}

// Plain returns a text that stays in its cell and can't command a terminal: one with signs that don't print is quoted.
func Plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// JSON returns a JSON text as it is, or for a terminal with the signs that don't print escaped: in the strings of JSON,
// where alone they can stand, that means the same.
func (s Screen) JSON(text []byte) []byte {
	odd := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !s.Terminal || !bytes.ContainsFunc(text, odd) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !odd(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Asks tells whether a person answers what is asked: whether r is a terminal.
func Asks(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
