package posthaste

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"posthaste.dev/posthaste/internal/wire"
)

// reservedHeader tells of the headers that the relay gives every record. It ignores case: Kafka does not, but
// consumers' libraries may, and would read Event_ID for event_id.
func reservedHeader(name string) bool { return wire.Reserved(strings.ToLower(name)) }

// traceHeaders returns traceparent and tracestate of the context's span in the format of W3C Trace Context, or nothing
// where there is no span or the event brings its own traceparent.
func traceHeaders(ctx context.Context, own map[string]string) map[string]string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	for name := range own {
		if strings.EqualFold(name, "traceparent") {
			return nil
		}
	}
	flags := span.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom)
	headers := map[string]string{"traceparent": fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), flags)}
	if state := span.TraceState().String(); state != "" {
		headers["tracestate"] = state
	}
	return headers
}

// headersJSON returns an object of strings, ordered by name, and the bytes that the headers take in a Kafka record. It
// is empty where there are no headers.
func headersJSON(headers map[string]string) (object string, size int) {
	if len(headers) == 0 {
		return "", 0
	}
	b := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendJSONString(b, name)
		b = append(b, ':')
		b = appendJSONString(b, headers[name])
		size += headerFraming + len(name) + len(headers[name])
	}
	return string(append(b, '}')), size
}

// badText says why PostgreSQL would not store a text.
func badText(s string) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return ErrNUL
	case !utf8.ValidString(s):
		return ErrInvalidUTF8
	}
	return nil
}
