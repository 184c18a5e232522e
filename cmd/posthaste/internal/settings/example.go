package settings

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const exampleHead = `# Settings of Posthaste, with their defaults. Remove what you do not change: it keeps its default.
# A flag, an environment variable and a line of .env each come before what stands here.
# The file is read where it is named: posthaste relay --config FILE, or POSTHASTE_CONFIG=FILE.
`

// WriteExample writes a YAML file of all settings with their defaults; those without one stand in comments.
func WriteExample(w io.Writer) error {
	var b strings.Builder
	b.WriteString(exampleHead)
	all := All()
	slices.SortStableFunc(all, func(a, b Setting) int { // topics, without a section, comes last
		return strings.Count(b.Key, ".") - strings.Count(a.Key, ".")
	})
	last := ""
	for _, s := range all {
		section, name, ok := strings.Cut(s.Key, ".")
		indent := "  "
		if !ok {
			section, name, indent = "", s.Key, ""
		}
		b.WriteString("\n")
		if section != last && section != "" {
			b.WriteString(section + ":\n")
		}
		last = section
		writeComment(&b, indent, s)
		if err := writeLines(&b, indent, name, s); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeComment(b *strings.Builder, indent string, s Setting) {
	text := sentence(s.Help)
	if s.Unit != "" {
		text += " Unit: " + s.Unit + "."
	}
	text += " Why: " + s.Why + "."
	if s.Secret {
		text += " Or " + s.Key + "_file: a file that holds it."
	}
	for line := range wrap(text, 110-len(indent)) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
}

// writeLines writes the setting as the file has it. One without a default gets its example, behind signs # that have no
// blank after them, unlike those of a comment.
func writeLines(b *strings.Builder, indent, name string, s Setting) error {
	given, mark := s.Default, ""
	if given == "" {
		given, mark = s.Example, "#"
	}
	if err := s.value.parse(given); err != nil {
		return err
	}
	value := s.value.get()
	if s.Secret {
		value = given
	}
	text, err := yaml.Dump(map[string]any{name: value})
	if err != nil {
		return err
	}
	// YAML's writer puts these in quotes, for readers that take them for true and false.
	if value == "on" || value == "off" {
		text = fmt.Appendf(nil, "%s: %s", name, value)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		b.WriteString(indent + mark + line + "\n")
	}
	return nil
}

// sentence makes one of a phrase.
func sentence(phrase string) string { return strings.ToUpper(phrase[:1]) + phrase[1:] + "." }

// wrap yields lines of at most so many bytes, but for longer words.
func wrap(text string, most int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && len(line)+1+len(word) > most {
				if !yield(line) {
					return
				}
				line = ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		if line != "" {
			yield(line)
		}
	}
}
