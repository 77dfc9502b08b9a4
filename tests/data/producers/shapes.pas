program test;
{$mode objfpc}
uses sysutils, classes;
type TShape = class
    fw: integer;
    constructor create(w: integer);
    function area: integer; virtual;
  end;
constructor TShape.create(w: integer); begin fw := w; end;
function TShape.area: integer; begin result := fw * fw; end;
function fact(n: integer): int64; 
  function helper(k: integer): int64; begin helper := k * fact(k - 1); end;
begin if n < 2 then fact := 1 else fact := helper(n); end;
var s: TShape; l: TStringList; i: integer;
begin
  s := TShape.create(4); l := TStringList.create;
  for i := 1 to 10 do l.add(inttostr(fact(i)));
  l.sort; writeln(l.text, s.area);
end.
