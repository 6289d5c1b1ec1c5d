package subagents

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// suggestKeyOrListAll returns the end of an error about an unknown key. It suggests a similar key or, if there is none, lists all keys.
func suggestKeyOrListAll(key string) string {
	known := keysOf(reflect.TypeFor[header](), reflect.TypeFor[permissions](), reflect.TypeFor[mcpServer]())
	if text := suggestKey(key, known); text != "" {
		return text
	}
	return ": the keys are " + strings.Join(known, ", ")
}

// suggestKey returns the end of a message that suggests a known key similar to key. It returns "" if there is none.
func suggestKey(key string, known []string) string {
	if near := nearest(key, known, max(1, len(key)/3)); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ""
}

// nearest returns the known key that is most similar to key. It returns "" if all differ by more than maxEdits edits, or if key
// is very long.
func nearest(key string, known []string, maxEdits int) string {
	best, distance := "", maxEdits+1
	if len(key) > 64 {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(key), strings.ToLower(k), nil); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// keysOf returns the YAML keys of the types' fields, sorted and without duplicates.
func keysOf(types ...reflect.Type) []string {
	var keys []string
	for _, t := range types {
		for f := range t.Fields() {
			keys = append(keys, f.Tag.Get("yaml"))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
