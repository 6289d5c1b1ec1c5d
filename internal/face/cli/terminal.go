package cli

import (
	"os"
	"strconv"

	"golang.org/x/term"

	fleetv1 "fleet/gen/fleet/v1"
)

// terminal describes one of the standard streams.
type terminal struct {
	file *os.File // nil if the stream is not a terminal
	env  func(string) string
}

// terminalOf returns the terminal of a stream. env looks up environment variables.
func terminalOf(stream any, env func(string) string) terminal {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return terminal{env: env}
	}
	return terminal{file: f, env: env}
}

// isTerminal reports whether the stream is a terminal.
func (t terminal) isTerminal() bool { return t.file != nil }

// hasCursor reports whether the stream is a terminal whose cursor can be moved.
func (t terminal) hasCursor() bool { return t.isTerminal() && t.env("TERM") != "dumb" }

// hasColors reports whether to use colours on the stream. noColor is the flag --no-color.
func (t terminal) hasColors(noColor bool) bool {
	return t.hasCursor() && !noColor && t.env("NO_COLOR") == ""
}

// size returns the terminal's current size in characters, or zeros if it is not known.
func (t terminal) size() (columns, rows int32) {
	w, h, err := term.GetSize(int(t.file.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 0, 0
	}
	return int32(w), int32(h) //nolint:gosec // a terminal has at most 65535 columns and lines
}

// width returns the width of the terminal in columns, or 0 (unlimited) if the stream is not a terminal. The environment variable
// COLUMNS overrides the terminal's own width. If neither is known, the width is 80.
func (t terminal) width() int {
	if !t.isTerminal() {
		return 0
	}
	if n, err := strconv.Atoi(t.env("COLUMNS")); err == nil && n > 0 {
		return n
	}
	w, _, err := term.GetSize(int(t.file.Fd()))
	if err != nil || w <= 0 {
		return 80
	}
	return w
}

// color is an SGR parameter.
type color string

const (
	defaultColor color = ""
	bold         color = "1"
	dim          color = "2"
	red          color = "31"
	green        color = "32"
	yellow       color = "33"
	cyan         color = "36"
)

// toneColors has the colour of each tone of a value.
var toneColors = map[fleetv1.Value_Tone]color{
	fleetv1.Value_good: green, fleetv1.Value_active: yellow, fleetv1.Value_bad: red, fleetv1.Value_over: dim, fleetv1.Value_aside: cyan,
}

// paint returns the text in the colour if colored is set, and unchanged otherwise.
func paint(colored bool, c color, text string) string {
	if !colored || c == defaultColor || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
