package cli

import fleetv1 "fleet/gen/fleet/v1"

// color is an SGR parameter.
type color string

const (
	noColor color = ""
	bold    color = "1"
	dim     color = "2"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	cyan    color = "36"
)

// tones are the colours of values.
var tones = map[fleetv1.Value_Tone]color{
	fleetv1.Value_good: green, fleetv1.Value_active: yellow, fleetv1.Value_bad: red, fleetv1.Value_over: dim, fleetv1.Value_aside: cyan,
}

// paint colours a text.
func paint(on bool, c color, text string) string {
	if !on || c == noColor || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
