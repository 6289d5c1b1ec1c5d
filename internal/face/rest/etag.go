package rest

import "strings"

// hasTag reports whether the header If-None-Match names the tag or is *. The comparison is weak: W/"x" equals "x".
func hasTag(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		item = strings.TrimSpace(item)
		if item == "*" || strings.TrimPrefix(item, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
