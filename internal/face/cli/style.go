package cli

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

// paint colours a text.
func paint(on bool, c color, text string) string {
	if !on || c == noColor || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colorOf returns the colour of a status or a state, the same for agents and tasks.
func colorOf(status string) color {
	switch status {
	case "idle", "running", "completed", "ready", "open", "operative", "success":
		return green
	case "busy", "pending", "starting", "stopping", "deleting", "canceling", "working", "key_missing":
		return yellow
	case "failed", "unhealthy", "error", "unreachable", "unavailable":
		return red
	case "stopped", "offline", "canceled", "deleted", "closed":
		return dim
	}
	return noColor
}
