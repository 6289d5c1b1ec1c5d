package cli

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// printResponse prints a response according to the options of its fields. It returns an error if the response reports a failure. portion is
// the method's option that says how to request the next part of a list, or nil.
func (s *session) printResponse(resp proto.Message, portion *fleetv1.Portion) error {
	err := s.print(resp, nil, func() { s.showResponse(resp.ProtoReflect(), portion) })
	if err != nil {
		return err
	}
	return failureOf(resp.ProtoReflect())
}

// failureOf returns an error if a field of the response says that the request failed. The error contains the cause if
// another field gives it.
func failureOf(m protoreflect.Message) error {
	failed, why := false, "the answer does not say why"
	for f := range itemsOf(m.Descriptor().Fields()) {
		switch s := shownOption(f); {
		case s.GetFailedValue() != "":
			failed = scalarText(f, m.Get(f)) == s.GetFailedValue()
		case s.GetRole() == fleetv1.Shown_cause && m.Has(f):
			why = scalarText(f, m.Get(f))
		}
	}
	if !failed {
		return nil
	}
	return Fail(ExitFailed, "", "the request failed: %s", strings.TrimSuffix(why, "."))
}

// showResponse shows the text of the response if it has one, or else its lists, or else a card of its fields.
func (s *session) showResponse(m protoreflect.Message, portion *fleetv1.Portion) {
	if f := fieldWithRole(m.Descriptor(), fleetv1.Shown_text); f != nil {
		s.printTextField(m, f)
		return
	}
	var lists, otherFields []protoreflect.FieldDescriptor
	for f := range itemsOf(m.Descriptor().Fields()) {
		if f.IsList() && f.Message() != nil {
			lists = append(lists, f)
		} else {
			otherFields = append(otherFields, f)
		}
	}
	if len(lists) > 0 {
		s.showLists(m, lists, otherFields, portion)
		return
	}
	if s.quiet {
		s.showName(m)
		return
	}
	s.screen.print(s.cardOf(m))
}

// showName prints the value of the field with the role name, if there is one: the name or the id of the thing that the message describes.
func (s *session) showName(m protoreflect.Message) {
	if f := fieldWithRole(m.Descriptor(), fleetv1.Shown_name); f != nil && m.Get(f).String() != "" {
		s.screen.print(printable(m.Get(f).String()) + "\n")
	}
}

// printTextField prints the field f, the text of the response, unless the text was already printed while it arrived. It prints the other fields on
// standard error.
func (s *session) printTextField(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	text, printed := m.Get(f).String(), s.printedText
	plain := strings.TrimSpace((&sanitizer{}).clean(text))
	if plain == "" || !strings.HasSuffix(strings.TrimSpace(printed), plain) {
		if printed != "" && !strings.HasSuffix(printed, "\n") {
			s.screen.print("\n")
		}
		printed = text
		s.screen.print(text)
	}
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		s.screen.print("\n")
	}
	var facts []string
	s.appendFacts(m, failureOf(m) != nil, &facts)
	if len(facts) > 0 {
		s.hint("%s", strings.Join(facts, " · "))
	}
}

// appendFacts appends the label and the value of each field of the message to list. Of a field that is a message, it appends the fields. It
// leaves out hidden fields, empty values, and the fields that are shown elsewhere: the text, and what the error of a failed response
// reports.
func (s *session) appendFacts(m protoreflect.Message, failed bool, list *[]string) {
	for f := range itemsOf(m.Descriptor().Fields()) {
		if !m.Has(f) || failed && shownOption(f).GetFailedValue() != "" {
			continue
		}
		switch shownOption(f).GetRole() {
		case fleetv1.Shown_text, fleetv1.Shown_kind, fleetv1.Shown_hidden, fleetv1.Shown_cause:
			continue
		}
		if f.Message() != nil && !f.IsList() && !f.IsMap() && !isScalar(f) {
			s.appendFacts(m.Get(f).Message(), failed, list)
		} else if text := s.valueText(f, m.Get(f)); text != "" && !isZero(f, m.Get(f)) {
			*list = append(*list, labelOf(f)+" "+text)
		}
	}
}

// showLists prints a table for each list of a response, and the other fields on standard error. Of the lists after the first, it leaves out
// the empty ones, and with --quiet all.
func (s *session) showLists(m protoreflect.Message, lists, otherFields []protoreflect.FieldDescriptor, portion *fleetv1.Portion) {
	shownCount := 0
	for i, f := range lists {
		items := m.Get(f).List()
		if i > 0 && (items.Len() == 0 || s.quiet) {
			continue
		}
		if shownCount++; shownCount > 1 {
			s.screen.print("\n" + labelOf(f) + ":\n")
		}
		s.showList(f, items)
	}
	for _, f := range otherFields {
		text := s.valueText(f, m.Get(f))
		switch {
		case text == "" || isZero(f, m.Get(f)) || shownOption(f).GetRole() == fleetv1.Shown_hidden:
		case string(f.Name()) == portion.GetNext():
			s.hint("There are more: repeat the command with --%s %s", flagNameOf(portion.GetFrom()), text)
		default:
			s.hint("%s: %s", labelOf(f), text)
		}
	}
}

// showList prints a list as a table. It prints cards instead if a text is too long for a table, or if the list has a single item that is too
// wide for the terminal. With --quiet it prints only the names.
func (s *session) showList(f protoreflect.FieldDescriptor, items protoreflect.List) {
	if s.quiet {
		for i := range items.Len() {
			s.showName(items.Get(i).Message())
		}
		return
	}
	var columns []column
	var importantHeadings []string // of columns for the state of an item and the cause of its failure
	messages, hasLongText := make([]proto.Message, items.Len()), false
	for field := range itemsOf(f.Message().Fields()) {
		if shownOption(field).GetRole() != fleetv1.Shown_hidden && (!shownOption(field).GetWide() || s.output == wideFormat) {
			heading := strings.ToUpper(labelOf(field))
			columns = append(columns, column{heading, string(field.Name())})
			if field.Name() == "status" || shownOption(field).GetRole() == fleetv1.Shown_cause {
				importantHeadings = append(importantHeadings, heading)
			}
			for j := range messages {
				messages[j] = items.Get(j).Message().Interface()
				text := strings.TrimSpace(s.valueText(field, items.Get(j).Message().Get(field)))
				hasLongText = hasLongText || strings.Contains(text, "\n") || len([]rune(text)) > maxCellText
			}
		}
	}
	if !hasLongText {
		t := s.tableOf(f.Message(), messages, columns)
		t.importantHeadings = importantHeadings
		t.removeEmptyColumns()
		removed := t.fit(s.screen.outTerminal.width())
		if len(removed) > 0 && items.Len() == 1 {
			s.screen.print(s.cardOf(items.Get(0).Message()))
			return
		}
		s.printTable(t, "There are no "+strings.ToLower(labelOf(f))+".")
		if len(removed) > 0 {
			s.hint("The terminal is too narrow for: %s. -o yaml shows everything.", strings.ToLower(andList(removed)))
		}
		return
	}
	for i := range items.Len() {
		if i > 0 {
			s.screen.print("\n")
		}
		s.screen.print(s.cardOf(items.Get(i).Message()))
	}
}

// maxCellText is the longest text in a table, in characters.
const maxCellText = 200
