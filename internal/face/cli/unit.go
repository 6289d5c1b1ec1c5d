package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// withUnit formats a number of the unit.
func withUnit(n float64, u fleetv1.Shown_Unit) string {
	switch u {
	case fleetv1.Shown_milliseconds:
		return lasting(time.Duration(n * float64(time.Millisecond)))
	case fleetv1.Shown_seconds:
		return lasting(time.Duration(n * float64(time.Second)))
	case fleetv1.Shown_dollars:
		return cost(n)
	case fleetv1.Shown_size:
		return size(n)
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// lasting formats a duration: 12 ms, 3.4 s, 5m10s.
func lasting(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatFloat(math.Round(float64(d)/float64(time.Millisecond)), 'f', -1, 64) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	return exact(d)
}

// cost formats an amount in US dollars. It returns "" for zero.
func cost(usd float64) string {
	switch {
	case usd <= 0:
		return ""
	case usd < 0.01:
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// costOf formats a cost, and says how it is known unless the agent's program reported it.
func costOf(usd float64, basis string) string {
	text := cost(usd)
	switch basis {
	case "priced":
		return text + inParens("from the prices of models")
	case "unknown":
		if text == "" {
			return "unknown: a model has no price"
		}
		return "at least " + text + inParens("a model has no price")
	}
	return text
}

// size formats a number of bytes.
func size[N int | int32 | int64 | float64](n N) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f bytes", float64(n))
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
