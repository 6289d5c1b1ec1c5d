package app

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// hidden replaces a text of the configuration that may be secret or private.
const hidden = "(hidden)"

// shownKeys are keys that are not flags, but whose texts can be shown: they name projects, drivers, templates and so
// on.
var shownKeys = []string{"name", "driver", "sandbox", "project", "template", "app"}

// redacted returns the configuration without its secrets. It shows keys, numbers, booleans and the settings that are also
// flags, because a flag cannot be secret. It replaces other texts by hidden, which shows only that they are set.
func (c Config) redacted() any {
	if c.Store != "" {
		c.Store = c.shownStore()
	}
	return redact(reflect.ValueOf(c), false)
}

// redact returns a copy of the value for the YAML encoder. If shown is true, it keeps a text and the texts of a list, and
// hides them otherwise. The fields of a struct decide for themselves, and the texts in a map are always hidden.
func redact(v reflect.Value, shown bool) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return redact(v.Elem(), shown)
	case reflect.Struct:
		all := map[string]any{}
		redactFields(v, all)
		return all
	case reflect.Map:
		all := map[string]any{}
		for _, key := range v.MapKeys() {
			all[key.String()] = redact(v.MapIndex(key), false)
		}
		return all
	case reflect.Slice:
		all := []any{}
		for i := range v.Len() {
			all = append(all, redact(v.Index(i), shown))
		}
		return all
	case reflect.String:
		return redactText(v.String(), shown)
	case reflect.Int64:
		if d, ok := v.Interface().(time.Duration); ok {
			return d.String()
		}
	}
	return v.Interface()
}

func redactFields(v reflect.Value, into map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || key == "-":
		case option == "inline":
			redactFields(v.Field(i), into)
		case key != "":
			into[key] = redact(v.Field(i), f.Tag.Get("help") != "" || slices.Contains(shownKeys, key))
		}
	}
}

// redactText returns the text, or hidden if shown is false. A text that is shown loses the user, the query and the
// fragment of a URL, which may be secret.
func redactText(text string, shown bool) string {
	switch {
	case text == "":
		return ""
	case !shown:
		return hidden
	case !strings.Contains(text, "://"):
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		u.User = url.User("hidden")
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}
