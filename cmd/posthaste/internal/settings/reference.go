package settings

import (
	_ "embed"
	"io"
	"strings"
	"text/template"
)

//go:embed reference.md.tmpl
var referenceText string

// WriteReference writes the reference page of all settings, docs/reference-settings.md.
func WriteReference(w io.Writer) error {
	page, err := template.New("reference").Funcs(template.FuncMap{
		"sentence": sentence,
		"form":     func(s Setting) string { return s.value.form },
		"anchor":   func(env string) string { return "#" + strings.ToLower(env) },
		"list":     func(s Setting) bool { return s.value.list != nil },
		"required": func(s Setting) bool { return s.required },
	}).Parse(referenceText)
	if err != nil {
		return err
	}
	type group struct {
		Title    string
		Settings []Setting
	}
	var groups []group
	for _, g := range []struct {
		group Group
		title string
	}{
		{GroupDatabase, "Database"}, {GroupRelay, "Relay"}, {GroupKafka, "Kafka"}, {GroupHTTP, "Health and metrics"},
		{GroupLog, "Log"},
	} {
		groups = append(groups, group{g.title, All(g.group)})
	}
	return page.Execute(w, groups)
}
