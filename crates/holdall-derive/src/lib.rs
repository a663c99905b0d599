//! `#[derive(Record)]`: see `holdall::records::FromRecord` for what it does.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, LitStr, parse_macro_input};

/// Derives `holdall::records::FromRecord`; the documentation is at `holdall::records::Record`.
#[proc_macro_derive(Record, attributes(record))]
pub fn record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "`Record` is for structs"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "`Record` is for structs whose fields have names"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "`Record` is for structs without parameters",
        ));
    }
    if !is_repr_c(&input.attrs)? {
        let message =
            "`Record` is for structs that are `#[repr(C)]`: others may be laid out in any way";
        return Err(Error::new(input.span(), message));
    }
    let own = &input.ident;
    let (mut members, mut reads) = (Vec::new(), Vec::new());
    for field in &fields.named {
        let (ident, ty) = (&field.ident, &field.ty);
        let offset = quote!(::core::mem::offset_of!(#own, #ident));
        reads.push(quote!(#ident: ::holdall::records::derive::read(bytes, #offset)?));
        if let Some(name) = member_name(field)? {
            members.push(quote!(::holdall::records::derive::Field::new::<#ty>(#name, #offset)));
        }
    }
    Ok(quote! {
        impl ::holdall::records::FromRecord for #own {
            fn check(
                place: &::holdall::records::derive::TypePath<'_>,
            ) -> ::holdall::Result<()> {
                place.members(&[#(#members),*])
            }

            fn read(bytes: &[u8]) -> ::holdall::Result<Self> {
                ::core::result::Result::Ok(#own { #(#reads),* })
            }
        }
    })
}

/// Returns `true` if a struct has `#[repr(C)]`.
fn is_repr_c(attributes: &[Attribute]) -> Result<bool, Error> {
    let mut found = false;
    for attribute in attributes.iter().filter(|a| a.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("C");
            // `align(16)` and `packed(2)`.
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Returns the name of the schema's member for a field, or `None` for a field that is padding.
fn member_name(field: &Field) -> Result<Option<String>, Error> {
    let mut name = None;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("record")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("unknown argument; expected `#[record(name = \"…\")]`"));
            }
            name = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
    }
    let own = field.ident.as_ref().map(|ident| ident.unraw().to_string()).unwrap_or_default();
    Ok(name.or_else(|| (!own.starts_with('_')).then_some(own)))
}
