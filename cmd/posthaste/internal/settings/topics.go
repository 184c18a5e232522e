package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"posthaste.dev/posthaste/relay"
)

// topicRule is a relay.TopicRule as a person gives it.
type topicRule struct {
	Match    string  `json:"match" yaml:"match"`
	Interval float64 `json:"interval_seconds,omitempty" yaml:"interval_seconds,omitempty"`
	Batch    int     `json:"batch_size,omitempty" yaml:"batch_size,omitempty"`
	Refused  string  `json:"on_refused,omitempty" yaml:"on_refused,omitempty"`
}

// String is the rule in the compact form.
func (r topicRule) String() string {
	var settings []string
	if r.Interval != 0 {
		settings = append(settings, "interval="+strconv.FormatFloat(r.Interval, 'f', -1, 64))
	}
	if r.Batch != 0 {
		settings = append(settings, "batch="+strconv.Itoa(r.Batch))
	}
	if r.Refused != "" {
		settings = append(settings, "refused="+r.Refused)
	}
	if len(settings) == 0 {
		return r.Match
	}
	return r.Match + ": " + strings.Join(settings, " ")
}

const topicsForm = "PATTERN: interval=SECONDS batch=EVENTS refused=POLICY; ..."

// topics reads rules from the compact form, or from a list of the YAML file. Patterns and ranges are judged by package
// relay.
func topics(field *[]relay.TopicRule) value {
	return value{
		form: topicsForm,
		parse: func(s string) error {
			rules, err := compactTopics(s)
			if err == nil {
				*field = rules
			}
			return err
		},
		list: func(node *yaml.Node) error {
			rules, err := listedTopics(node)
			if err == nil {
				*field = rules
			}
			return err
		},
		get: func() any {
			var rules []topicRule
			for _, r := range *field {
				rules = append(rules, topicRule{string(r.Match), r.Interval.Seconds(), r.Batch,
					string(r.OnRefused)})
			}
			if rules == nil {
				return nil
			}
			return rules
		},
	}
}

func refusedPolicy(field *relay.RefusedPolicy) value {
	return choice(field, relay.HoldKey, relay.HoldAggregate, relay.Skip)
}

func compactTopics(s string) ([]relay.TopicRule, error) {
	var rules []relay.TopicRule
	if strings.TrimSpace(s) == "" { // given by a flag, to leave out what the file has
		return nil, nil
	}
	for i, piece := range strings.Split(s, ";") {
		match, settings, _ := strings.Cut(piece, ":")
		rule := relay.TopicRule{Match: relay.Pattern(strings.TrimSpace(match))}
		if strings.TrimSpace(piece) == "" {
			return nil, fmt.Errorf("rule %d is empty; semicolons stand between rules", i+1)
		}
		fields := map[string]value{"interval": seconds(&rule.Interval), "batch": positive(&rule.Batch),
			"refused": refusedPolicy(&rule.OnRefused)}
		for word := range strings.FieldsSeq(settings) {
			name, given, _ := strings.Cut(word, "=")
			field, ok := fields[name]
			if !ok {
				return nil, fmt.Errorf("rule %d (%s): %q is not understood, or comes twice; "+
					"want %s", i+1, rule.Match, word, topicsForm)
			}
			if err := field.parse(given); err != nil {
				return nil, fmt.Errorf("rule %d (%s): %s: %w", i+1, rule.Match, word, err)
			}
			delete(fields, name)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func listedTopics(list *yaml.Node) ([]relay.TopicRule, error) {
	var rules []relay.TopicRule
	var wrong []error
	for _, item := range list.Content {
		var rule relay.TopicRule
		wrong = append(wrong, listedTopic(item, &rule)...)
		rules = append(rules, rule)
	}
	return rules, errors.Join(wrong...)
}

func listedTopic(item *yaml.Node, rule *relay.TopicRule) (wrong []error) {
	refuse := func(node *yaml.Node, format string, args ...any) {
		wrong = append(wrong, atLine{node.Line, fmt.Errorf(format, args...)})
	}
	if item.Kind != yaml.MappingNode {
		refuse(item, "want match, interval_seconds, batch_size and on_refused of a rule")
		return wrong
	}
	names := []string{"match", "interval_seconds", "batch_size", "on_refused"}
	fields := map[string]value{
		"match": text(&rule.Match), "interval_seconds": seconds(&rule.Interval), "batch_size": positive(&rule.Batch),
		"on_refused": refusedPolicy(&rule.OnRefused),
	}
	seen := map[string]bool{}
	for key, node := range pairs(item) {
		field, ok := fields[key.Value]
		switch {
		case !ok:
			refuse(key, "%s: no such key%s", key.Value, hint(key.Value, names))
			continue
		case seen[key.Value]:
			refuse(key, "%s is given twice", key.Value)
			continue
		}
		seen[key.Value] = true
		given, err := plain(node, field, false)
		if err == nil {
			err = field.parse(given)
		}
		if err != nil {
			refuse(key, "%s: %w", key.Value, err)
		}
	}
	if !seen["match"] {
		refuse(item, "match is missing: a topic, or a pattern such as order-service.*")
	}
	return wrong
}
