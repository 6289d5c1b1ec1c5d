package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// uses has the names of the messages that are requests, and of the messages that are part of answers.
type uses struct {
	request, answer map[protoreflect.FullName]bool
}

func usesOf(files []*protogen.File) uses {
	u := uses{map[protoreflect.FullName]bool{}, map[protoreflect.FullName]bool{}}
	for _, f := range files {
		for _, s := range f.Services {
			for _, m := range s.Methods {
				u.request[m.Input.Desc.FullName()] = true
				u.addAnswer(m.Output)
			}
		}
	}
	return u
}

// addAnswer adds a message and the messages in it.
func (u uses) addAnswer(m *protogen.Message) {
	if u.answer[m.Desc.FullName()] {
		return
	}
	u.answer[m.Desc.FullName()] = true
	for _, f := range m.Fields {
		if f.Message != nil {
			u.addAnswer(f.Message)
		}
	}
}
