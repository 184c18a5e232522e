package settings

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Passwords in URLs: platform-engineering-labs/formae PR#454, PostgREST/postgrest#1531, timescale/promscale#727.
func TestDatabaseURL(t *testing.T) {
	const understood = "h:1, database d, user u, password set"
	for _, dsn := range []string{
		"postgres://u:p%40s%2Fs%23w%2520r%3Ad%3F%26%2B@h:1/d",
		`host=h port=1 user=u dbname=d password='p@s/s#w%20r:d?&+'`,
		"host=h port=1 user=u dbname=d password=p@s/s#w%20r:d?&+",
	} {
		c, err := load(t, "DATABASE_URL="+dsn)
		if err != nil || c.Database.Conn.Password != "p@s/s#w%20r:d?&+" || c.Database.Conn.Host != "h" ||
			c.Database.Conn.Database != "d" {
			t.Errorf("%s: %v", dsn, err)
		}
		inFile, err := yaml.Dump(map[string]any{"database": map[string]string{"url": dsn}})
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []Sources{{Environ: map[string]string{"DATABASE_URL": dsn}},
			{File: file(t, string(inFile))}} {
			if e := explain(t, from, "DATABASE_URL"); e.Text() != understood {
				t.Errorf("%s is understood as %s", dsn, e.Text())
			}
		}
	}
	two := explain(t, Sources{Environ: map[string]string{
		"DATABASE_URL": "postgres://u@h1,h2:2/d?sslmode=prefer&passfile=/none",
	}}, "DATABASE_URL")
	if two.Text() != "h1:5432 or h2:2, database d, user u, password not set" {
		t.Errorf("two hosts are understood as %s", two.Text())
	}
	for _, password := range []string{"p@s/s#w%20r:d?&+", "se/same", "se#same", "se?same", "12/same", "12?same",
		"12#same", "se%same", "se same", "/", "#", "?x", "se[same"} {
		for _, tail := range []string{"@h:1/d", "@h/d?sslmode=disable", "@127.0.0.1:5432/d?application_name=a"} {
			p, ok := wrong(t, "DATABASE_URL=postgres://u:"+password+tail)["DATABASE_URL"]
			if !ok || !strings.Contains(p.Want, "percent-encoded") {
				t.Errorf("password %q%s: %q", password, tail, p.Want)
			}
			if strings.Contains(p.Error(), "same") || strings.Contains(p.Error(), "w%20r") {
				t.Errorf("password in the text: %s", p.Error())
			}
		}
	}
	for dsn, want := range map[string]string{
		"postgres://u:sesame@h/d?sslmode=maybe":       "sslmode is invalid",
		"postgres://u:sesame@h/d?sslrootcert=/none/x": "no such file",
		"host=h password=se same":                     "single quotes",
		"host=h port=x password=sesame":               "key=value",
		"postgres://u:sesame@h:99999/d":               "the port is no number from 1 to 65535",
		"postgres://u:sesame@h1:1,h2:0/d":             "the port is no number from 1 to 65535",
		"'postgres://u:sesame@h/d'":                   "quotes",
		`"postgres://u:sesame@h/d"`:                   "quotes",
		"mysql://u:sesame@h/d":                        "postgres://",
		"sesame":                                      "key=value",
	} {
		p := wrong(t, "DATABASE_URL="+dsn)["DATABASE_URL"]
		if !strings.Contains(p.Want, want) || strings.Contains(p.Error(), "same") {
			t.Errorf("%s: %s", dsn, p.Error())
		}
	}
}
