import type ts from 'typescript'

type Compiler = typeof ts

/**
 * Returns the members of a type in the order in which they are written: base types first, parts of an intersection
 * from left to right. `null` if the order is not known.
 */
export function membersOf(ts: Compiler, checker: ts.TypeChecker, type: ts.Type): ts.Symbol[] | null {
  const names: string[] | null = namesOf(ts, checker, type)
  if (names === null) return null
  return [...new Set(names)].flatMap((name) => type.getProperty(name) ?? [])
}

function namesOf(ts: Compiler, checker: ts.TypeChecker, type: ts.Type): string[] | null {
  if (type.isIntersection()) {
    const all = type.types.map((one) => namesOf(ts, checker, one))
    return all.every((one) => one !== null) ? all.flat() as string[] : null
  }
  const target = (type as ts.TypeReference).target ?? type
  const bases: string[] = []
  if (target.isClassOrInterface()) {
    for (const base of checker.getBaseTypes(target)) {
      const names = namesOf(ts, checker, base)
      if (names === null) return null
      bases.push(...names)
    }
  }
  const own = type.getProperties().filter(({ name }) => !bases.includes(name))
  const places = own.map((one) => ({ name: one.name, at: one.valueDeclaration ?? one.declarations?.[0] }))
  if (places.some(({ at }) => at === undefined)) return null
  // Members of several declarations have an order only if these are parts of one interface.
  const parents = new Set(places.map(({ at }) => at!.parent))
  const declared = type.symbol?.declarations ?? []
  if (parents.size > 1 && ![...parents].every((one) => (declared as readonly ts.Node[]).includes(one))) return null
  places.sort((a, b) => {
    const [one, other] = [a.at!, b.at!]
    return one.parent === other.parent
      ? one.pos - other.pos
      : (declared as readonly ts.Node[]).indexOf(one.parent) - (declared as readonly ts.Node[]).indexOf(other.parent)
  })
  return [...bases, ...places.map(({ name }) => name)]
}

/**
 * Returns the parts of a union in the order in which they are written, in place or in the type alias. The compiler
 * sorts them differently. `null` if that does not cover all of them.
 */
export function unionOf(
  ts: Compiler, checker: ts.TypeChecker, node: ts.Node, parts: readonly ts.Type[],
): ts.Type[] | null {
  const found = new Set<ts.Type>()
  const add = (node: ts.Node, depth: number): void => {
    if (depth > 32) return
    if (ts.isUnionTypeNode(node)) {
      node.types.forEach((one) => add(one, depth + 1))
    } else if (ts.isParenthesizedTypeNode(node)) {
      add(node.type, depth + 1)
    } else if (ts.isTypeReferenceNode(node) || ts.isIdentifier(node)) {
      let symbol = checker.getSymbolAtLocation(ts.isTypeReferenceNode(node) ? node.typeName : node)
      if (symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol)
      const [declared] = symbol?.declarations ?? []
      if (declared !== undefined && ts.isTypeAliasDeclaration(declared)) add(declared.type, depth + 1)
      else if (declared !== undefined && ts.isEnumDeclaration(declared)) {
        declared.members.forEach((one) => found.add(checker.getTypeAtLocation(one)))
      } else found.add(checker.getTypeAtLocation(node))
    } else if (ts.isIndexedAccessTypeNode(node)) {
      // `(typeof KINDS)[number]`: the order of the tuple.
      const tuple = checker.getTypeAtLocation(node.objectType)
      if (checker.isTupleType(tuple)) checker.getTypeArguments(tuple as ts.TypeReference).forEach((one) => found.add(one))
    } else {
      found.add(checker.getTypeAtLocation(node))
    }
  }
  add(node, 0)
  const regular = (one: ts.Type): ts.Type => (one as { regularType?: ts.Type }).regularType ?? one
  const order = [...new Set([...found].map(regular))]
  const wanted = new Set(parts.map(regular))
  const kept = order.filter((one) => wanted.has(one))
  return kept.length === wanted.size ? kept : null
}
