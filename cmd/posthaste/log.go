package main

import (
	"io"
	"log/slog"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
)

// newLogger returns the logger that the settings ask for. Settings are checked before, so an unknown level can't come.
func newLogger(w io.Writer, l settings.Log) *slog.Logger {
	level := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}[l.Level]
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
